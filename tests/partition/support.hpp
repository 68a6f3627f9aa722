#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace partition_test {

inline gneiss::symmetric_csr graph_of(std::uint64_t nodes, std::vector<gneiss::edge> edges) {
    gneiss::edge_list<> stream(nodes, std::move(edges));
    return gneiss::make_symmetric_csr(stream);
}

/// Returns random edges, most of them between nodes that are near or have small numbers; some occur twice.
inline gneiss::symmetric_csr random_graph(std::uint64_t nodes, std::size_t edges, std::uint64_t seed) {
    gneiss::random_stream draw(gneiss::random_key(seed, gneiss::random_domain::user));
    std::vector<gneiss::edge> result;
    for (std::size_t e = 0; e < edges; ++e) {
        const auto v = static_cast<gneiss::node_id>(draw.below(nodes));
        const std::uint64_t u = e % 3 == 0 ? draw.below(nodes)
            : e % 3 == 1                   ? (v + draw.below(5)) % nodes
                                           : draw.below(1 + v / 4);
        result.push_back({v, 0, static_cast<gneiss::node_id>(u)});
    }
    return graph_of(nodes, std::move(result));
}

struct named_graph {
    std::string name;
    gneiss::symmetric_csr graph;
};

/// Returns graphs that tend to break algorithms, and some random ones.
inline std::vector<named_graph> small_graphs() {
    std::vector<gneiss::edge> star, path, clique;
    for (gneiss::node_id v = 1; v < 40; ++v) {
        star.push_back({0, 0, v});
        path.push_back({v - 1, 0, v});
    }
    for (gneiss::node_id v = 0; v < 12; ++v)
        for (gneiss::node_id u = 0; u < v; ++u) clique.push_back({u, 0, v});
    return {{"empty", graph_of(0, {})}, {"one node", graph_of(1, {})}, {"isolated", graph_of(30, {})},
        {"loops", graph_of(3, {{0, 0, 0}, {2, 0, 2}})}, {"star", graph_of(40, star)}, {"path", graph_of(40, path)},
        {"clique", graph_of(12, clique)}, {"sparse", random_graph(90, 100, 1)}, {"dense", random_graph(60, 900, 2)}};
}

/// Returns random labels, skewed; one in three nodes has none.
inline std::vector<gneiss::class_id> random_labels(std::uint64_t nodes, std::uint32_t classes, std::uint64_t seed) {
    gneiss::random_stream draw(gneiss::random_key(seed, gneiss::random_domain::user).with(1));
    std::vector<gneiss::class_id> labels(nodes);
    for (auto& label : labels) {
        label = static_cast<gneiss::class_id>(draw.below(1 + draw.below(classes)));
        if (draw.below(3) == 0) label = gneiss::unlabeled;
    }
    return labels;
}

/// Returns the number of edges between parts, counted one by one.
inline std::uint64_t cut_edges(const gneiss::symmetric_csr& graph, std::span<const gneiss::partition_id16> parts) {
    std::uint64_t cut = 0;
    for (gneiss::node_id v = 0; v < graph.nodes(); ++v)
        for (const gneiss::node_id u : graph.list(v)) cut += parts[u] != parts[v] ? 1 : 0;
    return cut / 2;
}

/// Throws if a part exceeds its weight cap or has too many nodes of a label.
inline void check_caps(const gneiss::symmetric_csr& graph, std::span<const gneiss::partition_id16> parts,
    const gneiss::partition_request& request) {
    using namespace gneiss;
    check_assignment(parts, request.parts, graph.nodes());
    const auto counts = label_counts(request.labels), caps = label_caps(counts, request.parts, request.label_cap);
    const std::uint64_t cap =
        max_weight(total_weight(request.balance, graph.nodes(), graph.arcs()), request.parts, request.imbalance);
    std::vector<std::uint64_t> weights(request.parts), labeled(request.parts * counts.size());
    for (node_id v = 0; v < graph.nodes(); ++v) {
        weights[parts[v]] += node_weight(request.balance, graph.degree(v));
        if (request.labels.empty()) continue;
        ++labeled[parts[v] * counts.size() + std::min<std::size_t>(request.labels[v], counts.size() - 1)];
    }
    for (const std::uint64_t weight : weights)
        if (weight > cap)
            throw error(errc::over_budget, "a part weighs " + std::to_string(weight) + " of " + std::to_string(cap));
    for (std::size_t i = 0; i < labeled.size(); ++i)
        if (labeled[i] > caps[i % counts.size()])
            throw error(errc::over_budget, "a part has too many nodes of a label");
}

/// Keeps the last state; throws errc::canceled after the save of step `end_at`, like a crash there.
class memory_journal final : public gneiss::partition_journal {
public:
    void save(std::uint32_t step, std::span<const std::byte> state) override {
        step_ = step;
        state_.assign(state.begin(), state.end());
        if (step == end_at) throw gneiss::error(gneiss::errc::canceled, "as asked");
    }
    [[nodiscard]] std::uint32_t step() const override { return step_; }
    [[nodiscard]] std::span<const std::byte> state() const override { return state_; }

    std::uint32_t end_at = 0;

private:
    std::uint32_t step_ = 0;
    std::vector<std::byte> state_;
};

/// Checks that a partitioner keeps caps of nodes and of labels exactly, on any graph.
template <class Partitioner>
void keeps_caps(const Partitioner& partition) {
    using namespace gneiss;
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U, 100U})
            for (const double imbalance : {0., .03, .5})
                for (const double label_cap : {0., 1., 1.1}) {
                    CAPTURE(name);
                    CAPTURE(k);
                    CAPTURE(imbalance);
                    CAPTURE(label_cap);
                    const auto labels = random_labels(graph.nodes(), 3, 5);
                    const partition_request request{
                        .parts = k, .imbalance = imbalance, .labels = labels, .label_cap = label_cap};
                    symmetric_stream stream(graph, 7);
                    CHECK_NOTHROW(check_caps(graph, partition(stream, request, serial_executor{}), request));
                }
}

/// Checks that it keeps the cap by edges if no single node is too heavy.
template <class Partitioner>
void keeps_caps_of_edges(const Partitioner& partition) {
    using namespace gneiss;
    const symmetric_csr graph = random_graph(2000, 9000, 3);
    for (const std::uint32_t k : {2U, 4U, 7U}) {
        const partition_request request{.parts = k, .imbalance = .05, .balance = balance_by::edges};
        symmetric_stream stream(graph);
        CHECK_NOTHROW(check_caps(graph, partition(stream, request, serial_executor{}), request));
    }
}

} // namespace partition_test
