#include <gneiss/partition/gap.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include <gneiss/partition/fennel.hpp>

#include "greedy_scan.hpp"
#include "support.hpp"

namespace test_partition_gap {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;
constexpr double any = std::numeric_limits<double>::infinity();

std::vector<partition_id16> run(
    const gap_partitioner& gap, const symmetric_csr& graph, const partition_request& request, std::size_t chunk = 7) {
    symmetric_stream stream(graph, chunk);
    return gap(stream, request, executor);
}

/// Returns the maximum nodes per part of each label, the unlabeled last.
std::vector<std::uint64_t> most_of_each(
    std::span<const partition_id16> parts, std::span<const class_id> labels, std::uint32_t k) {
    const std::size_t groups = label_counts(labels).size();
    std::vector<std::uint64_t> counts(groups * k), most(groups);
    for (std::size_t v = 0; v < parts.size(); ++v) {
        const std::size_t group = labels[v] == unlabeled ? groups - 1 : labels[v];
        most[group] = std::max(most[group], ++counts[group * k + parts[v]]);
    }
    return most;
}

} // namespace

TEST_CASE("GAP equals a scan of all parts: any labels, caps, weights, passes and initial assignment") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U, 70U})
            for (const std::uint32_t classes : {1U, 6U})
                for (const balance_by balance : {balance_by::nodes, balance_by::edges})
                    for (const double imbalance : {0., .03, any})
                        for (const double label_cap : {0., 1., 1.05, 1.5})
                            for (const std::uint32_t passes : {1U, 3U}) {
                                CAPTURE(name);
                                CAPTURE(k);
                                CAPTURE(classes);
                                CAPTURE(imbalance);
                                CAPTURE(label_cap);
                                const auto labels = random_labels(graph.nodes(), classes, k + passes);
                                const partition_request request{.parts = k,
                                    .imbalance = imbalance,
                                    .balance = balance,
                                    .labels = labels,
                                    .label_cap = label_cap};
                                std::vector<partition_id16> initial;
                                if (passes > 1 && balance == balance_by::nodes)
                                    initial.assign(graph.nodes(), static_cast<partition_id16>(k - 1));
                                const auto parts = run({.passes = passes, .initial = initial}, graph, request);
                                const std::uint64_t cap =
                                    max_weight(total_weight(balance, graph.nodes(), graph.arcs()), k, imbalance);
                                const auto counts = label_counts(labels);
                                if (graph.nodes() == 0) {
                                    CHECK(parts.empty());
                                    continue;
                                }
                                const detail::fennel_rule rule(1.5, graph.nodes(), graph.arcs(), k, counts);
                                const auto load_penalty = [&](std::size_t g, std::uint64_t s) {
                                    return rule.load_penalty(g, s);
                                };
                                const auto score = [&](std::size_t g, std::uint32_t n, std::uint64_t s) {
                                    return n - load_penalty(g, s);
                                };
                                REQUIRE(parts ==
                                    greedy_by_scan(graph, request, cap, true, initial, passes, score, load_penalty));
                            }
}

TEST_CASE("the caps of nodes and of every label are kept exactly, together") {
    const symmetric_csr graph = random_graph(997, 5000, 3);
    for (const std::uint32_t classes : {1U, 3U, 40U})
        for (const std::uint32_t k : {2U, 3U, 8U, 31U, 1500U})
            for (const double imbalance : {0., .02, any})
                for (const double label_cap : {1., 1.05, 2.})
                    for (const std::uint32_t passes : {1U, 3U}) {
                        const auto labels = random_labels(997, classes, k);
                        const auto parts = run({.passes = passes}, graph,
                            {.parts = k, .imbalance = imbalance, .labels = labels, .label_cap = label_cap});
                        CHECK(std::ranges::max(part_sizes(parts, k)) <= max_weight(997, k, imbalance));
                        const auto most = most_of_each(parts, labels, k);
                        const auto caps = label_caps(label_counts(labels), k, label_cap);
                        for (std::size_t g = 0; g < caps.size(); ++g) CHECK(most[g] <= caps[g]);
                    }
}

TEST_CASE("balanced by edges, the cap of a part holds before those of labels, which hold where there is room") {
    const symmetric_csr graph = random_graph(3000, 15000, 4);
    const std::uint64_t total = total_weight(balance_by::edges, 3000, graph.arcs());
    std::uint32_t heaviest = 0;
    for (node_id v = 0; v < 3000; ++v) heaviest = std::max(heaviest, graph.degree(v) + 1);
    symmetric_stream stream(graph);
    for (const std::uint32_t k : {2U, 8U, 31U})
        for (const double label_cap : {1., 1.05, 2.})
            for (const std::uint32_t passes : {1U, 3U}) {
                CAPTURE(k);
                CAPTURE(label_cap);
                CAPTURE(passes);
                const auto labels = random_labels(3000, 5, k);
                partition_request request{.parts = k,
                    .imbalance = static_cast<double>(k) * (heaviest + 1) / static_cast<double>(total),
                    .balance = balance_by::edges,
                    .labels = labels,
                    .label_cap = label_cap};
                const auto parts = run({.passes = passes}, graph, request);
                CHECK(std::ranges::max(part_weights(stream, parts, k, balance_by::edges)) <=
                    max_weight(total, k, request.imbalance));
                if (label_cap == 2) CHECK_NOTHROW(check_caps(graph, parts, request));
                request.imbalance = any;
                CHECK_NOTHROW(check_caps(graph, run({.passes = passes}, graph, request), request));
            }
}

TEST_CASE("without labels, or with one for all, GAP equals FENNEL") {
    const symmetric_csr graph = random_graph(400, 3000, 5);
    const std::vector<class_id> all(400, 0), none(400, unlabeled);
    for (const std::uint32_t k : {1U, 4U, 64U}) {
        symmetric_stream stream(graph);
        const auto fennel = fennel_partitioner{.passes = 2}(stream, {.parts = k}, executor);
        CHECK(run({.passes = 2}, graph, {.parts = k}) == fennel);
        CHECK(run({.passes = 2}, graph, {.parts = k, .labels = all}) == fennel);
        CHECK(run({.passes = 2}, graph, {.parts = k, .labels = none}) == fennel);
        CHECK(run({.passes = 2}, graph, {.parts = k, .labels = all, .label_cap = 1.03}) == fennel); // one cap twice
    }
}

TEST_CASE("if communities are labels, penalties bring labels near balance and caps balance them fully") {
    random_stream draw(random_key(6, random_domain::user));
    std::vector<edge> edges;
    std::vector<class_id> labels(4000);
    for (node_id v = 0; v < 4000; ++v) labels[v] = v % 8;
    for (int e = 0; e < 30000; ++e) {
        const auto v = static_cast<node_id>(draw.below(4000));
        edges.push_back(
            {v, 0, static_cast<node_id>(draw.below(10) < 9 ? v % 8 + 8 * draw.below(500) : draw.below(4000))});
    }
    const symmetric_csr graph = graph_of(4000, edges);
    symmetric_stream stream(graph);
    const auto most = [&](const std::vector<partition_id16>& parts) {
        return std::ranges::max(most_of_each(parts, labels, 8));
    };
    const auto fennel = fennel_partitioner{.passes = 5}(stream, {.parts = 8}, executor);
    const auto soft = run({.passes = 5}, graph, {.parts = 8, .labels = labels});
    const auto hard = run({.passes = 5}, graph, {.parts = 8, .labels = labels, .label_cap = 1.05});
    CHECK(most(fennel) > 350); // parts are communities; 62.5 is balanced
    CHECK(most(soft) < 200);
    CHECK(most(hard) <= 65);
}

TEST_CASE("neither chunks nor an interruption after any pass matter; 4096 parts work") {
    const symmetric_csr graph = random_graph(2000, 9000, 7);
    const auto labels = random_labels(2000, 12, 7);
    for (const std::uint32_t k : {6U, 4096U}) {
        partition_request request{.parts = k, .labels = labels, .label_cap = 1.05};
        const auto expected = run({.passes = 3}, graph, request, 1);
        CHECK(run({.passes = 3}, graph, request, 10000) == expected);
        for (std::uint32_t step = 1; step < 3; ++step) {
            memory_journal journal;
            request.journal = &journal;
            journal.end_at = step;
            CHECK_THROWS_AS(run({.passes = 3}, graph, request), error);
            journal.end_at = 0;
            CHECK(run({.passes = 3}, graph, request) == expected);
        }
    }
}

TEST_CASE("labels of another number of nodes and caps below one are refused") {
    const symmetric_csr graph = random_graph(20, 40, 8);
    const std::vector<class_id> labels(19), right(20);
    CHECK_THROWS_AS(run({}, graph, {.labels = labels}), error);
    CHECK_THROWS_AS(run({}, graph, {.labels = right, .label_cap = .9}), error);
}

} // namespace test_partition_gap
