#include <gneiss/partition/random.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "support.hpp"

namespace test_partition_random {

using namespace gneiss;
using namespace partition_test;

namespace {

std::vector<partition_id16> run(const symmetric_csr& graph, const partition_request& request, std::size_t chunk = 7) {
    symmetric_stream stream(graph, chunk);
    return random_partitioner{}(stream, request, serial_executor{});
}

} // namespace

TEST_CASE("parts differ by at most one node; the seed determines them") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 3U, 8U, 200U}) {
            const auto parts = run(graph, {.parts = k, .seed = 5});
            check_assignment(parts, k, graph.nodes());
            const auto sizes = part_sizes(parts, k);
            CHECK(std::ranges::max(sizes) - std::ranges::min(sizes) <= 1);
            CHECK(parts == run(graph, {.parts = k, .seed = 5}, 1000));
        }
    const symmetric_csr graph = graph_of(1000, {});
    CHECK(run(graph, {.seed = 1}) != run(graph, {.seed = 2}));
}

TEST_CASE("two nodes share a part with the expected frequency") {
    const symmetric_csr graph = graph_of(4000, {});
    const auto parts = run(graph, {.parts = 4, .seed = 9});
    int together = 0;
    for (std::size_t v = 0; v < 4000; v += 2) together += parts[v] == parts[v + 1];
    CHECK(together > 400); // 500 expected, deviation 19
    CHECK(together < 600);
}

TEST_CASE("balanced by edges, caps hold if no node weighs more than the slack, and a star always fits") {
    const symmetric_csr graph = random_graph(1000, 6000, 4);
    std::uint32_t heaviest = 0;
    for (node_id v = 0; v < 1000; ++v) heaviest = std::max(heaviest, graph.degree(v) + 1);
    const std::uint64_t total = total_weight(balance_by::edges, 1000, graph.arcs());
    const double imbalance = 8. * (heaviest + 1) / static_cast<double>(total);
    const partition_request request{.parts = 8, .imbalance = imbalance, .balance = balance_by::edges};
    const auto parts = run(graph, request);
    symmetric_stream stream(graph);
    CHECK(std::ranges::max(part_weights(stream, parts, 8, balance_by::edges)) <= max_weight(total, 8, imbalance));
    CHECK(parts == run(graph, request, 1));
    for (const auto& [name, small] : small_graphs())
        CHECK_NOTHROW(check_assignment(run(small, {.parts = 5, .balance = balance_by::edges}), 5, small.nodes()));
}

} // namespace test_partition_random
