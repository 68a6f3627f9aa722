#include <gneiss/partition/band.hpp>

#include <doctest/doctest.h>

#include <stop_token>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/partition/fennel.hpp>

#include "support.hpp"

namespace test_partition_band {

using namespace gneiss;
using namespace partition_test;

namespace {

const serial_executor executor;

} // namespace

TEST_CASE("band heights start at the hubs and halve; the last band has nodes of at most one neighbor") {
    for (const double mean : {0., .7, 3., 36.5, 1e9}) {
        const detail::degree_bands bands(mean);
        for (std::size_t degree = 0; degree < 5000; ++degree) {
            CHECK(bands.of(degree + 1) <= bands.of(degree));
            CHECK((bands.of(degree) == detail::degree_bands::count - 1) == (degree < 2));
            if (bands.of(degree) > 0 && bands.of(degree) + 2 < detail::degree_bands::count)
                CHECK(bands.of(2 * degree) + 1 == bands.of(degree));
        }
    }
}

TEST_CASE("bands keep caps of nodes and of labels exactly, on any graph") { keeps_caps(band_partitioner{}); }

TEST_CASE("bands by edges keep the cap if no single node is too heavy") { keeps_caps_of_edges(band_partitioner{}); }

TEST_CASE("neither threads nor chunks change the result of bands, and a resumed run gives the same bits") {
    const symmetric_csr graph = random_graph(20000, 100000, 6);
    const partition_request request{.parts = 9};
    symmetric_stream whole(graph), pieces(graph, 1234);
    const auto alone = band_partitioner{}(whole, request, executor);
    CHECK(band_partitioner{}(pieces, request, tbb_executor(3)) == alone);
    memory_journal journal;
    journal.end_at = 1;
    partition_request interrupted = request;
    interrupted.journal = &journal;
    CHECK_THROWS_AS((void)band_partitioner{}(whole, interrupted, executor), error);
    journal.end_at = 0;
    CHECK(band_partitioner{}(pieces, interrupted, executor) == alone);
    const symmetric_csr other = random_graph(100, 200, 1);
    symmetric_stream wrong(other);
    CHECK_THROWS_AS((void)band_partitioner{}(wrong, interrupted, executor), error);
}

TEST_CASE("bands cut fewer edges than the order of a graph whose hubs come last") {
    const symmetric_csr graph =
        random_graph(20000, 100000, 9); // hubs have small numbers: the order by degree, reversed
    symmetric_csr turned = graph;
    const auto n = static_cast<node_id>(graph.nodes());
    turned.neighbors.clear();
    for (node_id v = 0; v < n; ++v) {
        for (const node_id u : graph.list(n - 1 - v)) turned.neighbors.push_back(n - 1 - u);
        turned.offsets[v + 1] = turned.neighbors.size();
    }
    symmetric_stream stream(turned);
    const partition_request request{.parts = 8};
    CHECK(cut_edges(turned, band_partitioner{.passes = 0}(stream, request, executor)) <
        cut_edges(turned, fennel_partitioner{}(stream, request, executor)));
}

TEST_CASE("bands stop on request and report progress until then") {
    const symmetric_csr graph = random_graph(100, 300, 8);
    symmetric_stream stream(graph, 10);
    std::stop_source stop;
    partition_request request{.parts = 4, .stop = stop.get_token()};
    std::uint64_t calls = 0;
    request.progress = [&](std::string_view, std::uint64_t, std::uint64_t total) {
        CHECK(total == 100);
        if (++calls == 5) stop.request_stop();
    };
    CHECK_THROWS_AS((void)band_partitioner{}(stream, request, executor), error);
    CHECK(calls == 5);
}

} // namespace test_partition_band
