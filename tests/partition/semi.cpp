#include <gneiss/partition/semi.hpp>

#include <doctest/doctest.h>

#include <stop_token>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/partition/fennel.hpp>

#include "support.hpp"

namespace test_partition_semi {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;

} // namespace

TEST_CASE("clusters keep caps of nodes and of labels exactly, on any graph") { keeps_caps(semi_partitioner{}); }

TEST_CASE("clusters keep the cap by edges if no single node is too heavy") { keeps_caps_of_edges(semi_partitioner{}); }

TEST_CASE("a ring is cut about once per part, while a streamed partitioner cuts it nearly everywhere") {
    std::vector<node_id> number(4000);
    for (node_id v = 0; v < 4000; ++v) number[v] = v;
    shuffle(number, random_key(1, random_domain::user));
    std::vector<edge> edges;
    for (node_id v = 0; v < 4000; ++v)
        for (const node_id step : {1U, 2U, 3U}) edges.push_back({number[v], 0, number[(v + step) % 4000]});
    const symmetric_csr graph = graph_of(4000, edges);
    symmetric_stream stream(graph);
    const partition_request request{.parts = 4};
    CHECK(cut_edges(graph, semi_partitioner{}(stream, request, executor)) <= 48); // 24 is the minimum
    CHECK(cut_edges(graph, fennel_partitioner{}(stream, request, executor)) > 1000);
}

TEST_CASE("an edge limit on the graph of clusters gives heavier clusters, or falls back to bands") {
    const symmetric_csr graph = random_graph(3000, 12000, 3);
    symmetric_stream stream(graph);
    const partition_request request{.parts = 4};
    CHECK(
        semi_partitioner{.most_edges = 1}(stream, request, executor) == band_partitioner{}(stream, request, executor));
    CHECK_NOTHROW(check_caps(graph, semi_partitioner{.most_edges = 4000}(stream, request, executor), request));
}

TEST_CASE("neither threads nor chunks change parts made of clusters, and a resumed run gives the same bits") {
    const symmetric_csr graph = random_graph(20000, 60000, 6);
    const partition_request request{.parts = 9, .seed = 3};
    symmetric_stream whole(graph), pieces(graph, 1234);
    const auto alone = semi_partitioner{}(whole, request, executor);
    CHECK(semi_partitioner{}(pieces, request, tbb_executor(3)) == alone);
    memory_journal journal;
    journal.end_at = 1;
    partition_request interrupted = request;
    interrupted.journal = &journal;
    CHECK_THROWS_AS((void)semi_partitioner{}(whole, interrupted, executor), error);
    journal.end_at = 0;
    CHECK(semi_partitioner{}(pieces, interrupted, executor) == alone);
}

TEST_CASE("a stop ends a run at any point") {
    const symmetric_csr graph = random_graph(500, 1500, 8);
    for (const std::uint64_t calls : {1U, 30U, 60U, 65U}) {
        symmetric_stream stream(graph, 50);
        std::stop_source stop;
        partition_request request{.parts = 4, .stop = stop.get_token()};
        std::uint64_t reports = 0;
        request.progress = [&](std::string_view, std::uint64_t, std::uint64_t) {
            if (++reports == calls) stop.request_stop();
        };
        CHECK_THROWS_AS((void)semi_partitioner{}(stream, request, executor), error);
        CHECK(reports == calls);
    }
}

} // namespace test_partition_semi
