#include <gneiss/partition/combine.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/partition/fennel.hpp>
#include <gneiss/partition/ldg.hpp>

#include <support/error_code.hpp>

#include "support.hpp"

namespace test_partition_combine {

using namespace gneiss;
using namespace partition_test;

TEST_CASE("an overlay separates two nodes if either of its partitionings does") {
    const std::vector<partition_id16> a{0, 0, 1, 1, 0, 2}, b{3, 4, 3, 4, 3, 4};
    const auto result = detail::overlay(a, b);
    REQUIRE(result);
    for (std::size_t v = 0; v < a.size(); ++v)
        for (std::size_t u = 0; u < a.size(); ++u)
            CHECK(((*result)[v] == (*result)[u]) == (a[v] == a[u] && b[v] == b[u]));
}

TEST_CASE("combining never raises the cut and keeps caps, on any graph") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U})
            for (const balance_by balance : {balance_by::nodes, balance_by::edges}) {
                CAPTURE(name);
                CAPTURE(k);
                const partition_request request{.parts = k, .imbalance = 2, .balance = balance};
                symmetric_stream stream(graph, 7);
                auto parts = fennel_partitioner{}(stream, request, serial_executor{});
                const auto other = ldg_partitioner{}(stream, request, serial_executor{});
                const std::uint64_t before = cut_edges(graph, parts);
                combine_parts(stream, parts, other, request, serial_executor{});
                CHECK(cut_edges(graph, parts) <= before);
                if (balance == balance_by::nodes) CHECK_NOTHROW(check_caps(graph, parts, request));
            }
}

TEST_CASE("neither threads nor chunks change a combination, and it improves on streamed partitionings") {
    const symmetric_csr graph = random_graph(20000, 60000, 6);
    const partition_request request{.parts = 6};
    symmetric_stream whole(graph), pieces(graph, 1234);
    auto one = fennel_partitioner{}(whole, request, serial_executor{}), two = one;
    const std::uint64_t before = cut_edges(graph, one);
    combine_parts(whole, one, one, request, serial_executor{});
    combine_parts(pieces, two, two, request, tbb_executor(3));
    CHECK(one == two);
    CHECK(cut_edges(graph, one) < before);
}

TEST_CASE("parts of other nodes, or beyond their number, are not combined") {
    const symmetric_csr graph = random_graph(50, 200, 1);
    symmetric_stream stream(graph);
    const std::vector<partition_id16> good(50, 0);
    const auto code = [&](std::vector<partition_id16> parts, const std::vector<partition_id16>& other) {
        return test::code_of([&] { combine_parts(stream, parts, other, {.parts = 3}, serial_executor{}); });
    };
    std::vector<partition_id16> longer(51, 0), beyond = good;
    beyond[49] = 7;
    for (const auto& bad : {longer, beyond}) {
        CHECK(code(bad, good).has_value());
        CHECK(code(bad, good) == code(good, bad));
    }
}

} // namespace test_partition_combine
