#include <gneiss/partition/portfolio.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/partition/ldg.hpp>

#include "support.hpp"

namespace test_partition_portfolio {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;

} // namespace

TEST_CASE("a portfolio cuts no more than any candidate, and keeps caps") {
    for (const auto& [name, graph] : small_graphs())
        for (const std::uint32_t k : {1U, 2U, 5U, 100U}) {
            CAPTURE(name);
            CAPTURE(k);
            symmetric_stream stream(graph, 7);
            const partition_request request{.parts = k};
            const auto parts = default_portfolio{}(stream, request, executor);
            const auto band = band_partitioner{}(stream, request, executor),
                       semi = semi_partitioner{}(stream, request, executor);
            CHECK(cut_edges(graph, parts) <= std::min(cut_edges(graph, semi), cut_edges(graph, band)));
            CHECK_NOTHROW(check_caps(graph, parts, request));
        }
}

TEST_CASE("concurrent candidates give the same as sequential ones, whatever the chunks") {
    const symmetric_csr graph = random_graph(20000, 60000, 6);
    const partition_request request{.parts = 6};
    symmetric_stream whole(graph), pieces(graph, 1234);
    any_adjacency in_turn{symmetric_stream(graph, 777)}; // cannot be copied
    const auto alone = default_portfolio{}(whole, request, executor);
    CHECK(default_portfolio{}(pieces, request, tbb_executor(3)) == alone);
    CHECK(default_portfolio{}(in_turn, request, tbb_executor(3)) == alone);
}

TEST_CASE("a portfolio interrupted after any candidate gives the same bits") {
    const symmetric_csr graph = random_graph(900, 4000, 2);
    symmetric_stream stream(graph);
    const partition_request request{.parts = 6};
    const auto interrupt = [&](const auto& portfolio, std::uint32_t steps) {
        const auto whole = portfolio(stream, request, executor);
        for (std::uint32_t step = 1; step <= steps; ++step) {
            memory_journal journal;
            journal.end_at = step;
            partition_request interrupted = request;
            interrupted.journal = &journal;
            CHECK_THROWS_AS((void)portfolio(stream, interrupted, executor), error);
            journal.end_at = 0;
            CHECK(portfolio(stream, interrupted, executor) == whole);
        }
    };
    interrupt(portfolio_partitioner<band_partitioner, ldg_partitioner, semi_partitioner>{}, 3);
    interrupt(portfolio_partitioner<band_partitioner, ldg_partitioner>{}, 2); // the worse one after the better
}

} // namespace test_partition_portfolio
