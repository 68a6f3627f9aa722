#include <gneiss/storage/adjacency/neighbor_pass.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <storage/csc.hpp>

namespace test_storage_adjacency_neighbor_pass {

using namespace gneiss;
using test::stored_lists;

namespace {

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

constexpr block_coalescing adjacent{.gap_bytes = 0, .request_bytes = 16 << 10};

/// Some batches of a graph, drawn by one sampler.
struct drawing {
    std::uint64_t nodes;
    neighbor_sampler<> sampler;
    mini_batch_arena arena{};

    template <class G>
    std::string operator()(const G& graph, std::uint64_t batch) {
        const auto seeds = test::some_nodes(nodes, 40, batch);
        (void)sampler.sample({0, {0, 0, batch}}, graph, std::span<const node_id>(seeds), serial_executor{}, arena);
        return test::contents(arena);
    }
    /// Returns false if the sample was complete.
    bool collect(neighbor_pass& pass, std::uint64_t batch) {
        pass.collect(static_cast<std::size_t>(batch));
        try {
            (void)(*this)(pass, batch);
        } catch (const neighbor_pass::collected&) {
            return true;
        }
        return false;
    }
};

} // namespace

TEST_CASE("samples drawn hop by hop equal those in memory, and a hop reads no block twice") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    constexpr std::uint64_t batches = 7;
    for (const char* fanout : {"10,10,10", "5+5,3+all", "all"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            if (std::string(fanout).find('+') != std::string::npos && d != neighbor_direction::both) continue;
            CAPTURE(fanout);
            CAPTURE(static_cast<int>(d));
            const neighbor_options options{parse_fanout(fanout, d), false, false, false};
            drawing draw{3000, neighbor_sampler<>(options, 4)};
            memory_budget budget;
            const disk_csc graph(data.files, threads(), budget);
            neighbor_pass pass(graph);
            pass.begin(batches, options.fanout.size(), 4 << 20);
            for (std::size_t hop = 0; hop < options.fanout.size(); ++hop) {
                for (std::uint64_t b = 0; b < batches; ++b) CHECK(draw.collect(pass, b));
                CHECK(pass.waiting() == batches);
                const io_stats expected = pass.cost(adjacent);
                const auto done = pass.read(adjacent, {});
                REQUIRE(done);
                CHECK(done->reads == expected.reads);
                CHECK(done->read_bytes == expected.read_bytes);
                const std::uint64_t sides = d == neighbor_direction::both ? 2 : 1;
                CHECK(done->read_bytes <= sides * 60000 * sizeof(node_id));
                CHECK(pass.waiting() == 0);
            }
            const std::uint64_t read = graph.statistics().io.read_bytes;
            for (std::uint64_t b = 0; b < batches; ++b) {
                pass.replay(static_cast<std::size_t>(b));
                CHECK(draw(pass, b) == draw(data.graph, b));
            }
            CHECK(graph.statistics().io.read_bytes == read);
        }
}

TEST_CASE("a request that does not fit is not collected, and the graph answers it") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    const neighbor_options options{parse_fanout("10,10", neighbor_direction::in), false, false, false};
    drawing draw{3000, neighbor_sampler<>(options, 4)};
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget);
    neighbor_pass pass(graph);
    std::size_t most = 0;
    for (std::uint64_t memory = 0; memory < 40000; memory += 1000) {
        pass.begin(8, 2, memory);
        std::uint64_t fitting = 0;
        for (std::uint64_t b = 0; b < 8 && !pass.full(); ++b) {
            CHECK(draw.collect(pass, b));
            CHECK(pass.used_bytes() <= memory);
            fitting += pass.full() ? 0 : 1;
        }
        CHECK(pass.waiting() == fitting);
        CHECK(fitting >= most);
        most = static_cast<std::size_t>(fitting);
        (void)pass.cost(adjacent);
        REQUIRE(pass.read(adjacent, {}));
        for (std::uint64_t b = 0; b < 8; ++b) {
            pass.replay(static_cast<std::size_t>(b));
            CHECK(draw(pass, b) == draw(data.graph, b));
        }
    }
    CHECK(most > 3);
}

TEST_CASE("a batch alone costs what the graph reads for it") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    const neighbor_options options{parse_fanout("10", neighbor_direction::in), false, false, false};
    drawing draw{3000, neighbor_sampler<>(options, 4)};
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget, {.coalesce_bytes = 4096, .request_bytes = 8192});
    neighbor_pass pass(graph);
    pass.begin(5, 1, 1 << 20);
    for (std::uint64_t b = 0; b < 5; ++b) {
        REQUIRE(draw.collect(pass, b));
        const io_stats alone = pass.cost_alone(), before = graph.statistics().io;
        (void)draw(graph, b);
        const io_stats read = graph.statistics().io - before;
        CHECK(alone.reads == read.reads);
        CHECK(alone.read_bytes == read.read_bytes);
    }
}

TEST_CASE("a stop ends a pass without an answer") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    drawing draw{3000, neighbor_sampler<>({parse_fanout("10", neighbor_direction::in), false, false, false}, 4)};
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget);
    neighbor_pass pass(graph);
    pass.begin(1, 1, 1 << 20);
    REQUIRE(draw.collect(pass, 0));
    (void)pass.cost(adjacent);
    std::stop_source stop;
    stop.request_stop();
    CHECK_FALSE(pass.read(adjacent, stop.get_token()));
    pass.end();
    CHECK(draw(pass, 0) == draw(data.graph, 0));
}

} // namespace test_storage_adjacency_neighbor_pass
