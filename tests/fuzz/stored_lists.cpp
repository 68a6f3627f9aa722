#include "fuzz/target.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "fuzz/changed_files.hpp"
#include <support/temporary_directory.hpp>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/adjacency/adjacency_file_stream.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/adjacency/neighbor_cache.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_fuzz_stored_lists {

using namespace gneiss;

static constexpr std::uint64_t nodes = 40, edges = 1500, fingerprint = 7; // neighbors: two checksum blocks

static void make_lists(const std::filesystem::path& at, bool incoming) {
    std::filesystem::create_directory(at);
    random_stream draw(random_key(incoming ? 1 : 2, random_domain::user));
    npy_writer indptr(at / "indptr.npy", npy_dtype::u64), stamp(at / "stamp.npy", npy_dtype::u64);
    npy_writer neighbors(at / "neighbours.npy", npy_dtype::u32, {}, csc_block_bytes);
    for (std::uint64_t v = 0; v <= nodes; ++v) indptr.append(v * v * edges / (nodes * nodes));
    for (std::uint64_t e = 0; e < edges; ++e) neighbors.append(static_cast<std::uint32_t>(draw.below(nodes)));
    stamp.append(
        std::span<const std::uint64_t>(std::array<std::uint64_t, 4>{incoming ? 1U : 0U, nodes, edges, fingerprint}));
    for (npy_writer* file : {&indptr, &neighbors, &stamp}) (void)file->close();
    if (!incoming) return;
    npy_writer loops(at / csc_loops_name, npy_dtype::u32, {3});
    constexpr auto last = static_cast<std::uint32_t>(nodes - 1); // the longest lists
    loops.append(std::span<const std::uint32_t>(std::array<std::uint32_t, 6>{last - 1, 1, 2, last, 0, 1}));
    (void)loops.close();
}

/// Reads every neighbor of every node, as a sampler does.
template <class Graph>
static std::vector<node_id> all_of(const Graph& graph, neighbor_direction d) {
    std::vector<node_id> ids(static_cast<std::size_t>(graph.nodes()));
    std::iota(ids.begin(), ids.end(), node_id{0});
    std::vector<std::uint32_t> degrees(ids.size()), offsets{0}, positions;
    graph.degrees(ids, d, degrees);
    for (const std::uint32_t degree : degrees) {
        for (std::uint32_t p = 0; p < degree; ++p) positions.push_back(p);
        offsets.push_back(static_cast<std::uint32_t>(positions.size()));
    }
    std::vector<node_id> found(positions.size());
    graph.neighbors_at({ids, d, offsets, positions}, {found});
    fuzz::property(std::ranges::all_of(found, [&](node_id v) { return v < graph.nodes(); }), "neighbors are node ids");
    return found;
}

GNEISS_FUZZ_TARGET("stored_lists", bytes) {
    static const test::temporary_directory at;
    static const csc_files files{at / "in", at / "out"};
    static fuzz::changed_files all = [] {
        make_lists(files.in, true);
        make_lists(files.out, false);
        std::filesystem::create_directory(at / "cache");
        std::vector<node_id> ranked(nodes);
        std::iota(ranked.rbegin(), ranked.rend(), node_id{0});
        memory_budget budget;
        neighbor_cache::build(
            at / "cache" / "lists", memory_csc(files, budget), neighbor_direction::in, ranked, 2000, fingerprint);
        fuzz::changed_files result(files.in);
        result.add(files.out);
        result.add(at / "cache");
        return result;
    }();
    all.change(bytes);
    const engine_factory engines = [] { return any_engine(threads_engine(1)); };
    const auto budget_of = [] { return memory_budget(std::uint64_t{16} << 20); };
    for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        std::vector<node_id> on_disk, in_memory, mapped;
        const bool one = fuzz::accepted([&] {
            memory_budget budget = budget_of();
            on_disk = all_of(disk_csc(files, engines, budget, {.request_bytes = 8192, .requests = 4, .wave = 512}), d);
        });
        const bool other = fuzz::accepted([&] {
            memory_budget budget = budget_of();
            in_memory = all_of(memory_csc(files, budget), d);
        });
        (void)fuzz::accepted([&] {
            memory_budget budget = budget_of();
            const mapped_csc graph(files, budget);
            mapped = all_of(graph, d);
            graph.verify();
            fuzz::property(!one || mapped == on_disk, "mapped lists equal loaded ones");
        });
        if (one && other) fuzz::property(on_disk == in_memory, "lists in memory equal those on disk");
        fuzz::property(one == other, "both readers refuse the same");
    }
    (void)fuzz::accepted([&] {
        memory_budget budget = budget_of();
        adjacency_file_stream stream(files, engines, budget, {.chunk_arcs = 300, .chunk_nodes = 7});
        std::uint64_t arcs = 0, lists = 0;
        for (auto chunk = stream.next(); !chunk.empty(); chunk = stream.next())
            for (std::size_t i = 0; i < chunk.size(); ++i, ++lists) {
                arcs += chunk.list(i).size();
                for (const node_id v : chunk.list(i))
                    fuzz::property(v < stream.nodes() && v != chunk.node(i), "lists have nodes, and no loops");
            }
        fuzz::property(lists == stream.nodes() && arcs <= 2 * (2 * edges + 1024), "the stream has every list once");
    });
    (void)fuzz::accepted([&] {
        memory_budget budget = budget_of();
        neighbor_cache cache(at / "cache" / "lists", fingerprint, budget);
        cache.load();
        std::vector<node_id> ids(static_cast<std::size_t>(std::min<std::uint64_t>(cache.nodes(), 1000)));
        std::iota(ids.begin(), ids.end(), node_id{0});
        std::vector<const node_id*> found(ids.size());
        cache.find(ids, found);
        fuzz::property(cache.memory_bytes() <= budget.limit(), "a cache keeps its budget");
    });
}

} // namespace test_fuzz_stored_lists
