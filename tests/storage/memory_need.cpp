#include <gneiss/core/memory_budget.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/storage/adjacency/adjacency_file_stream.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/adjacency/neighbor_cache.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/superbatch/superbatch_sampler.hpp>
#include <storage/csc.hpp>
#include <storage/features.hpp>
#include <storage/rows.hpp>

namespace test_storage_memory_need {

using namespace gneiss;

namespace {

constexpr serial_executor serial;
constexpr std::uint64_t nodes = 400;

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// Checks that a component charges exactly its needs, in this order, frees them, and is refused with the last one.
/// \param make  make(budget) returns the component
template <class Make>
void check(const std::vector<memory_need>& needs, Make make) {
    memory_budget budget;
    {
        const auto component = make(budget);
        CHECK(budget.parts() == needs);
    }
    CHECK(budget.used() == 0);
    const std::uint64_t sum = std::accumulate(needs.begin(), needs.end(), std::uint64_t{0},
        [](std::uint64_t before, const memory_need& need) { return before + need.bytes; });
    memory_budget small(sum - 1);
    try {
        const auto component = make(small);
        FAIL("a byte less is not refused");
    } catch (const over_budget& refused) {
        CHECK(refused.parts() == needs);
    }
}

} // namespace

TEST_CASE("buffers of partitions, edges, graph and features charge what they state") {
    const test::stored_lists data(nodes, 4, test::lists_edges(nodes, 6000));
    const epoch_plan states = in_memory_order(4)(0);

    const row_layout layout{.dim = 6, .state = 6};
    const memory_file_system disk;
    const engine_factory in_memory = [disk] { return any_engine(memory_engine(disk, 4)); };
    embedding_file rows(in_memory, "rows", data.store.rows(), layout, 2);
    for (const partition_buffer_options& options : {partition_buffer_options{.resident_partitions = 2, .prefetch = 1},
             partition_buffer_options{.resident_partitions = 9}})
        check({partition_buffer::need(data.store.rows(), layout, options)},
            [&](memory_budget& budget) { return std::make_unique<partition_buffer>(rows, options, budget); });

    bucket_reader reader(data.store, threads());
    const memory_need edges = edge_buffer::need(states, reader.source());
    check({edges}, [&](memory_budget& budget) {
        return std::make_unique<edge_buffer>(reader.source(), edge_buffer_options{.bytes = edges.bytes}, budget);
    });
    check({edges}, [&](memory_budget& budget) { // a plan that needs more than was stated
        auto buffer = std::make_unique<edge_buffer>(reader.source(), edge_buffer_options{.bytes = 1}, budget);
        buffer->begin_epoch(states);
        return buffer;
    });

    const memory_need graph = graph_buffer::need(states, data.store, neighbor_direction::in);
    check({graph}, [&](memory_budget& budget) {
        return std::make_unique<graph_buffer>(data.store, threads(), neighbor_direction::in, graph.bytes, budget);
    });

    const test::temporary_directory directory;
    const std::vector<float> values(nodes * 3, 1.0F);
    const feature_store store(
        test::feature_writer(directory.path(), data.store.rows(), {}).write(values, 3), data.store.rows());
    const memory_need features = feature_buffer::need(states, store);
    check({features}, [&](memory_budget& budget) {
        return std::make_unique<feature_buffer>(store, threads(), features.bytes, budget);
    });
}

TEST_CASE("lists of neighbors in memory, mapped, on disk, cached and as a stream charge what they state") {
    const test::stored_lists data(nodes, 4, test::lists_edges(nodes, 30000));
    const memory_need offsets = csc_lists::need(data.files);
    check({offsets}, [&](memory_budget& budget) { return std::make_unique<mapped_csc>(data.files, budget); });
    check({offsets, memory_csc::need(data.files)},
        [&](memory_budget& budget) { return std::make_unique<memory_csc>(data.files, budget); });
    const disk_csc_options options{.requests = 3, .engines = 2};
    check({offsets, disk_csc::need(options)},
        [&](memory_budget& budget) { return std::make_unique<disk_csc>(data.files, threads(), budget, options); });

    const std::filesystem::path path = data.directory.path() / "cache";
    std::vector<node_id> all(nodes);
    std::iota(all.begin(), all.end(), node_id{0});
    std::vector<std::uint32_t> in(nodes), out(nodes);
    data.graph.degrees(all, neighbor_direction::in, in);
    data.graph.degrees(all, neighbor_direction::out, out);
    neighbor_cache::build(path, data.graph, neighbor_direction::in, rank_lists(out, in), 10000, 7);
    memory_budget unlimited;
    const neighbor_cache cache(path, 7, unlimited);
    check({neighbor_cache::need(cache.nodes(), cache.lists(), cache.entries())}, [&](memory_budget& budget) {
        auto loaded = std::make_unique<neighbor_cache>(path, 7, budget);
        loaded->load();
        return loaded;
    });

    std::uint64_t longest = 0;
    for (node_id v = 0; v < nodes; ++v)
        longest = std::max<std::uint64_t>(longest, data.graph.in().degree(v) + data.graph.out().degree(v));
    for (const std::uint64_t arcs : {longest + 1, longest / 2}) {
        const adjacency_file_stream_options chunks{.chunk_arcs = arcs, .chunk_nodes = 50};
        check({adjacency_file_stream::need(nodes, data.graph.edges(), chunks, longest)}, [&](memory_budget& budget) {
            return std::make_unique<adjacency_file_stream>(data.files, threads(), budget, chunks);
        });
    }

    const disk_csc on_disk({data.files.in, {}}, threads(), unlimited);
    const node_batches batches(test::some_nodes(nodes, 60, 2), 20, 6, 0, 0);
    const superbatch_sampler_options passes{.way = gather_way::scan, .memory = 100'000};
    check({superbatch_sampler::need(passes)}, [&](memory_budget& budget) {
        auto sampler = std::make_unique<superbatch_sampler>(
            on_disk, 1,
            [] { return neighbor_sampler<>({parse_fanout("5", neighbor_direction::in), false, false, false}, 6); },
            passes, serial, budget);
        (void)sampler->read(0, batches, 0, 3, {});
        return sampler;
    });
}

TEST_CASE("sources of rows charge what they state, and more for the rows of the largest batch") {
    const test::temporary_directory directory;
    const storage_test::rows_file file(threads(), directory.path() / "rows", 3000, 100);
    const std::vector<node_id> ids = storage_test::some_rows(70, 3000, 1);
    storage_test::gathered_rows to(ids.size(), 100);

    const gather_options reads{.run_bytes = 8192, .staging_bytes = 1 << 20};
    const memory_need gather = disk_rows::need(100, reads);
    const auto open = [&](memory_budget& budget) {
        return std::make_unique<disk_rows>(threads(), file.stored, reads, serial, budget);
    };
    check({gather}, open);
    check({disk_rows::need(100, reads, page_alignment, ids.size())}, [&](memory_budget& budget) {
        auto rows = open(budget);
        rows->gather(ids, to.target());
        return rows;
    });
    check({memory_rows::need(file.stored)},
        [&](memory_budget& budget) { return std::make_unique<memory_rows>(file.stored, nullptr, serial, budget); });

    memory_budget unlimited;
    const auto below = open(unlimited);
    for (const slot_table_kind kind : {slot_table_kind::direct, slot_table_kind::hashed})
        check({cached_rows<disk_rows>::need(3000, 100, 200, kind)}, [&](memory_budget& budget) {
            return std::make_unique<cached_rows<disk_rows>>(*below, 200, kind, serial, budget);
        });
    const extent_options dealing{.directory = directory.path(), .memory = 512U << 10};
    check({extent_rows::need(3000, dealing)}, [&](memory_budget& budget) {
        any_row_source source(std::in_place_type<disk_rows>, threads(), file.stored, reads, serial, unlimited);
        return std::make_unique<extent_rows>(std::move(source), threads(), dealing, serial, budget);
    });
}

} // namespace test_storage_memory_need
