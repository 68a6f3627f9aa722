#include <gneiss/partition/ldg.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "greedy_scan.hpp"
#include "support.hpp"

namespace test_partition_ldg {

using namespace gneiss;
using namespace partition_test;

TEST_CASE("LDG equals a scan of all parts: neighbors (1 - weight / cap), the lightest of equal parts") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U, 100U})
            for (const balance_by balance : {balance_by::nodes, balance_by::edges})
                for (const std::uint32_t passes : {1U, 3U}) {
                    CAPTURE(name);
                    CAPTURE(k);
                    const partition_request request{.parts = k, .balance = balance};
                    const std::uint64_t cap = max_weight(total_weight(balance, graph.nodes(), graph.arcs()), k, .03);
                    const auto load_penalty = [&](std::size_t, std::uint64_t s) {
                        return static_cast<double>(s) / static_cast<double>(cap);
                    };
                    const auto score = [&](std::size_t g, std::uint32_t n, std::uint64_t s) {
                        return n * (1 - load_penalty(g, s));
                    };
                    symmetric_stream stream(graph, 3);
                    const auto parts = ldg_partitioner{.passes = passes}(stream, request, serial_executor{});
                    CHECK(parts == greedy_by_scan(graph, request, cap, false, {}, passes, score, load_penalty));
                }
}

TEST_CASE("nodes without neighbors fill parts evenly") {
    const symmetric_csr graph = graph_of(103, {});
    symmetric_stream stream(graph);
    const auto sizes = part_sizes(ldg_partitioner{}(stream, {.parts = 10}, serial_executor{}), 10);
    CHECK(std::ranges::max(sizes) == 11);
    CHECK(std::ranges::min(sizes) == 10);
}

TEST_CASE("labels are refused") {
    const symmetric_csr graph = graph_of(4, {});
    symmetric_stream stream(graph);
    const std::vector<class_id> labels(4);
    CHECK_THROWS_AS((void)ldg_partitioner{}(stream, {.labels = labels, .label_cap = 1}, serial_executor{}), error);
}

} // namespace test_partition_ldg
