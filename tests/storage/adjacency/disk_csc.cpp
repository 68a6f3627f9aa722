#include <gneiss/storage/adjacency/disk_csc.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <storage/csc.hpp>
#include <storage/features.hpp>
#include <storage/read_faults.hpp>
#include <storage/support.hpp>

namespace test_storage_adjacency_disk_csc {

using namespace gneiss;
using test::check_equal_lists;
using test::samples_of;
using test::stored_lists;

namespace {

engine_factory threads() {
    return [] { return any_engine(threads_engine(4)); };
}

/// Small requests and waves, so that even small graphs need many.
constexpr disk_csc_options small{
    .coalesce_bytes = 4096, .request_bytes = 8192, .requests = 3, .wave = 100, .engines = 2};

} // namespace

TEST_CASE("a graph on disk equals the graph in memory, position by position, on every engine and with any requests") {
    for (const auto& [nodes, partitions, edges] :
        {std::tuple(std::uint64_t{3000}, 5U, std::size_t{60000}), {211, 3, 3000}, {1, 1, 40}, {1, 1, 0}, {10, 4, 0}}) {
        const stored_lists data(nodes, partitions, edges == 0 ? std::vector<edge>{} : test::lists_edges(nodes, edges));
        for (const auto& [name, engines] : storage_test::all_engines()) {
            if (name == "memory")
                for (const auto& directory : {data.files.in, data.files.out}) {
                    const auto disk = engines;
                    any_engine engine = disk();
                    const plain_file from = plain_file::open(directory / "neighbours.npy");
                    std::vector<std::byte> bytes(static_cast<std::size_t>(from.size()));
                    from.read_at(0, bytes);
                    file copy(engine, directory / "neighbours.npy", {.write = true, .create = true});
                    io_queue queue(engine);
                    queue.write(copy, 0, bytes);
                    queue.drain();
                }
            for (const disk_csc_options& options : {disk_csc_options{}, small,
                     disk_csc_options{.coalesce_bytes = 0, .request_bytes = 4096, .requests = 1, .wave = 1}}) {
                if (options.wave == 1 && edges > 10000) continue; // a request for each list
                memory_budget budget;
                const disk_csc graph(data.files, engines, budget, options);
                check_equal_lists(data.graph, graph);
            }
        }
    }
}

TEST_CASE("samples from disk equal those from memory, bit for bit, on one thread and several") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    const auto expected = samples_of(data.graph);
    memory_budget budget;
    for (const disk_csc_options& options : {disk_csc_options{}, small}) {
        const disk_csc graph(data.files, threads(), budget, options);
        CHECK((samples_of(graph) == expected));
        CHECK((samples_of(graph, tbb_executor(3)) == expected));
    }
    // Several samplers at once, more than the number of engines.
    const disk_csc graph(data.files, threads(), budget, small);
    std::vector<std::vector<std::string>> found(4);
    {
        std::vector<std::jthread> samplers;
        for (auto& mine : found) samplers.emplace_back([&] { mine = samples_of(graph); });
    }
    for (const auto& mine : found) CHECK((mine == expected));
}

TEST_CASE("any cache gives the same samples and saves reads; a released cache is unused") {
    const stored_lists data(3000, 5, test::lists_edges(3000, 60000));
    const auto expected = samples_of(data.graph);
    std::vector<node_id> all(3000);
    for (node_id v = 0; v < 3000; ++v) all[v] = v;
    std::vector<std::uint32_t> in(3000), out(3000);
    data.graph.degrees(all, neighbor_direction::in, in);
    data.graph.degrees(all, neighbor_direction::out, out);
    memory_budget budget;
    disk_csc graph(data.files, threads(), budget);
    std::uint64_t before = ~std::uint64_t{0};
    for (const std::uint64_t bytes : {0U, 1000U, 20000U, 100000U, 10000000U}) {
        std::vector<neighbor_cache> caches;
        caches.reserve(3);
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
            const auto path = data.directory.path() / ("cache" + std::to_string(static_cast<int>(d)));
            graph.set_cache(nullptr);
            neighbor_cache::build(path, graph, d, rank_lists(out, in), bytes, graph.fingerprint(d));
            caches.emplace_back(path, graph.fingerprint(d), budget);
            caches.back().load();
        }
        for (const neighbor_cache& cache : caches) graph.set_cache(&cache);
        const disk_csc_stats first = graph.statistics();
        CHECK((samples_of(graph) == expected));
        const disk_csc_stats last = graph.statistics();
        const std::uint64_t read = last.io.read_bytes - first.io.read_bytes;
        CHECK(read <= before);
        before = read;
        if (bytes == 0) CHECK(last.cached_lists == first.cached_lists);
        if (bytes == 10000000) { // all nodes with incoming edges; "both" includes those
            CHECK(last.cached_neighbors > first.cached_neighbors);
            for (neighbor_cache& cache : caches) cache.release();
            CHECK((samples_of(graph) == expected));
            CHECK(graph.statistics().cached_lists == last.cached_lists);
            CHECK(graph.statistics().io.read_bytes > last.io.read_bytes);
        }
        graph.set_cache(nullptr);
    }
}

TEST_CASE("only blocks with drawn positions are read, adjacent ones together") {
    const std::uint64_t nodes = 2000;
    std::vector<edge> edges;
    for (std::uint32_t e = 0; e < 100 * 1024; ++e) edges.push_back({e % 1900, 0, 1950}); // 100 blocks, one list
    const stored_lists data(nodes, 1, edges);
    memory_budget budget;
    const disk_csc graph(data.files, threads(), budget, {.coalesce_bytes = 8192, .request_bytes = 65536});
    const std::vector<node_id> ids{1950};
    const std::vector<std::uint32_t> positions{99 * 1024, 5, 6, 2 * 1024, 50 * 1024, 53 * 1024, 50 * 1024 + 1};
    const std::vector<std::uint32_t> offsets{0, 7};
    std::vector<node_id> found(7), expected(7);
    graph.neighbors_at({ids, neighbor_direction::in, offsets, positions}, {found});
    data.graph.neighbors_at({ids, neighbor_direction::in, offsets, positions}, {expected});
    CHECK((found == expected));
    CHECK(graph.statistics().io.reads == 3); // blocks 0 to 2, 50 to 53, 99
    CHECK(graph.statistics().io.read_bytes == 8 * 4096);
    CHECK(graph.statistics().neighbors == 7);
}

TEST_CASE("after a failed read a sample ends in a typed error, after one that is repeated it is right, and so is the "
          "next one") {
    const stored_lists data(600, 3, test::lists_edges(600, 3000));
    const auto expected = samples_of(data.graph);
    const std::uint64_t struck =
        storage_test::sweep_read_faults(2, [&](const engine_factory& engines, bool sticky, const auto& attempt) {
            memory_budget budget;
            const disk_csc graph(data.files, engines, budget, small);
            const bool met = attempt([&] {
                const auto samples = samples_of(graph);
                CHECK((samples == expected));
            });
            if (met && !sticky) CHECK((samples_of(graph) == expected));
        });
    CHECK(struck > 50);
}

TEST_CASE("every truncated file is refused, and every flipped bit is found before its neighbor is returned") {
    const stored_lists data(600, 3, test::lists_edges(600, 21000));
    const auto expected = samples_of(data.graph);
    const auto lists = [&] {
        memory_budget budget;
        check_equal_lists(data.graph, disk_csc(data.files, threads(), budget));
    };
    for (const char* name :
        {"indptr.npy", "neighbours.npy", "stamp.npy", "indptr.npy.xxh3", "neighbours.npy.xxh3", "stamp.npy.xxh3"}) {
        const auto path = data.files.in / name;
        std::string whole;
        {
            std::ifstream from(path, std::ios::binary);
            whole.assign(std::istreambuf_iterator<char>(from), {});
        }
        const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
        for (std::size_t length = 0; length < whole.size(); length += whole.size() / 10 + 1) {
            write(whole.substr(0, length));
            CHECK_THROWS_AS(lists(), error);
        }
        for (std::size_t at = 1; at < whole.size(); at += whole.size() / 40 + 1) {
            std::string flipped = whole;
            flipped[at] = static_cast<char>(flipped[at] ^ 16);
            write(flipped);
            CHECK_THROWS_AS(lists(), error);
        }
        write(whole);
    }
    lists();
}

TEST_CASE("unsupported input is refused: directions, relations, budgets, exchanged or foreign files") {
    const stored_lists data(300, 3, test::lists_edges(300, 4000)), other(301, 3, test::lists_edges(301, 4000));
    memory_budget budget, tight(100000);
    CHECK_THROWS_AS(disk_csc({}, threads(), budget), error);
    CHECK_THROWS_AS(disk_csc({data.files.out, data.files.in}, threads(), budget), error);
    CHECK_THROWS_AS(disk_csc({data.files.in, other.files.out}, threads(), budget), error);
    CHECK_THROWS_AS(disk_csc(data.files, threads(), tight), over_budget);
    CHECK_THROWS_AS(disk_csc(data.files, threads(), budget, {.request_bytes = 1000}), error);
    disk_csc graph({data.files.in, {}}, threads(), budget);
    const std::vector<node_id> ids{1};
    std::vector<std::uint32_t> degree(1), offsets{0, 0}, positions;
    CHECK_THROWS_AS(graph.degrees(ids, neighbor_direction::out, degree), error);
    CHECK_THROWS_AS(graph.neighbors_at({ids, neighbor_direction::both, offsets, positions}, {}), error);
    std::vector<relation_id> relations(1);
    CHECK_THROWS_AS(graph.neighbors_at({ids, neighbor_direction::in, offsets, positions}, {{}, relations, {}}), error);

    const auto path = data.directory.path() / "cache";
    neighbor_cache::build(path, graph, neighbor_direction::in, ids, 10000, 5);
    const neighbor_cache cache(path, 5, budget);
    disk_csc stranger({other.files.in, {}}, threads(), budget);
    CHECK_THROWS_AS(stranger.set_cache(&cache), error);
    graph.set_cache(&cache);
}

} // namespace test_storage_adjacency_disk_csc
