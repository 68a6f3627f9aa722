#include <gneiss/partition/refine.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <stop_token>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/partition/gap.hpp>

#include "support.hpp"

namespace test_partition_refine {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;

/// Reference implementation of a pass: scans all parts and recounts their contents.
std::uint64_t refine_by_scan(
    const symmetric_csr& graph, std::vector<partition_id16>& parts, const partition_request& request) {
    const auto n = static_cast<node_id>(graph.nodes());
    const std::uint64_t cap =
        max_weight(total_weight(request.balance, n, graph.arcs()), request.parts, request.imbalance);
    const auto best_of = [&](node_id v) {
        std::vector<std::uint32_t> first(request.parts, ~0U), neighbors(request.parts);
        for (std::uint32_t i = 0; i < graph.degree(v); ++i) {
            first[parts[graph.list(v)[i]]] = std::min(first[parts[graph.list(v)[i]]], i);
            ++neighbors[parts[graph.list(v)[i]]];
        }
        std::vector<std::uint64_t> weights(request.parts);
        for (node_id u = 0; u < n; ++u) weights[parts[u]] += node_weight(request.balance, graph.degree(u));
        const std::uint64_t weight = node_weight(request.balance, graph.degree(v));
        std::uint32_t best = request.parts;
        for (std::uint32_t p = 0; p < request.parts; ++p) {
            if (p == parts[v] || neighbors[p] == 0 || weights[p] + weight > cap) continue;
            if (best == request.parts ||
                std::tuple(neighbors[best], weights[p], first[p]) <
                    std::tuple(neighbors[p], weights[best], first[best]))
                best = p;
        }
        const std::uint32_t home = parts[v];
        if (best == request.parts || neighbors[best] < neighbors[home] ||
            (neighbors[best] == neighbors[home] && weights[best] + weight >= weights[home]))
            return home;
        return best;
    };
    std::vector<node_id> movers;
    for (node_id v = 0; v < n; ++v)
        if (best_of(v) != parts[v]) movers.push_back(v);
    std::uint64_t moves = 0;
    for (const node_id v : movers) {
        const std::uint32_t to = best_of(v);
        moves += to != parts[v];
        parts[v] = static_cast<partition_id16>(to);
    }
    return moves;
}

std::vector<partition_id16> dealt(std::uint64_t nodes, std::uint32_t k) {
    std::vector<partition_id16> parts(nodes);
    for (std::size_t v = 0; v < nodes; ++v) parts[v] = static_cast<partition_id16>(v % k);
    return parts;
}

} // namespace

TEST_CASE("a refinement pass equals scans of all parts") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U, 100U})
            for (const balance_by balance : {balance_by::nodes, balance_by::edges})
                for (const double imbalance : {0., .3, 1e9}) {
                    CAPTURE(name);
                    CAPTURE(k);
                    const partition_request request{.parts = k, .imbalance = imbalance, .balance = balance};
                    auto parts = dealt(graph.nodes(), k), scanned = parts;
                    symmetric_stream stream(graph, 7);
                    const refinement done = refine_parts(stream, parts, request, 1, executor);
                    CHECK(done.moves == refine_by_scan(graph, scanned, request));
                    CHECK(parts == scanned);
                }
}

TEST_CASE("no pass raises the cut, the decrease is reported, and caps are kept") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {2U, 3U, 8U})
            for (const double label_cap : {0., 1., 1.3}) {
                CAPTURE(name);
                CAPTURE(k);
                CAPTURE(label_cap);
                const auto labels = random_labels(graph.nodes(), 3, 5);
                const partition_request request{.parts = k, .imbalance = .2, .labels = labels, .label_cap = label_cap};
                symmetric_stream stream(graph, 11);
                auto parts = gap_partitioner{}(stream, request, executor);
                for (int pass = 0; pass < 5; ++pass) {
                    const std::uint64_t before = cut_edges(graph, parts);
                    const refinement done = refine_parts(stream, parts, request, 1, executor);
                    CHECK(cut_edges(graph, parts) + done.uncut == before);
                    CHECK_NOTHROW(check_caps(graph, parts, request));
                }
            }
}

TEST_CASE("refinement ends when no node has a better part") {
    const symmetric_csr graph = random_graph(300, 1500, 4);
    symmetric_stream stream(graph);
    auto parts = dealt(300, 4);
    const partition_request request{.parts = 4};
    CHECK(refine_parts(stream, parts, request, 1000, executor).passes < 1000);
    auto again = parts;
    CHECK(refine_by_scan(graph, again, request) == 0);
}

TEST_CASE("neither threads nor chunks change a refinement") {
    const symmetric_csr graph = random_graph(30000, 150000, 6);
    const auto labels = random_labels(30000, 3, 7);
    const partition_request request{.parts = 7, .labels = labels, .label_cap = 1.05};
    symmetric_stream whole(graph), pieces(graph, 1234);
    auto alone = gap_partitioner{}(whole, request, executor), shared = alone;
    const refinement one = refine_parts(whole, alone, request, 3, executor),
                     other = refine_parts(pieces, shared, request, 3, tbb_executor(3));
    CHECK(one.moves > 1000);
    CHECK(one.moves == other.moves);
    CHECK(alone == shared);
}

TEST_CASE("invalid refinements are refused, and a stop ends a run") {
    const symmetric_csr graph = random_graph(100, 300, 8);
    symmetric_stream stream(graph);
    std::stop_source stop;
    stop.request_stop();
    auto parts = dealt(100, 4);
    CHECK_THROWS_AS(refine_parts(stream, parts, {.parts = 3}, 1, executor), error); // a node in part 3
    CHECK_THROWS_AS(refine_parts(stream, parts, {.parts = 4, .stop = stop.get_token()}, 1, executor), error);
    parts.pop_back();
    CHECK_THROWS_AS(refine_parts(stream, parts, {.parts = 4}, 1, executor), error);
}

} // namespace test_partition_refine
