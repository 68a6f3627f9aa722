#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/io/csc_builder.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>

#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <support/temporary_directory.hpp>

namespace gneiss::test {

/// Returns edges with hubs, repeated edges, self loops and isolated nodes, ids spread over all partitions; and, if
/// there are enough edges, one node with 5000 incoming and 3000 outgoing edges: longer than several blocks.
inline std::vector<edge> lists_edges(std::uint64_t nodes, std::size_t count) {
    auto edges = hub_edges(nodes, count, nodes);
    const auto hub = static_cast<node_id>(nodes / 2);
    if (count > 20000)
        for (std::size_t e = 0; e < 8000; ++e) (e < 5000 ? edges[e].destination : edges[e].source) = hub;
    return edges;
}

/// Edges of a dataset as buckets, as lists in memory and as lists on disk.
struct stored_lists {
    temporary_directory directory{};
    bucket_store store;
    csc_files files;
    csr_graph<> graph; ///< expected contents of the files

    stored_lists(std::uint64_t nodes, std::uint32_t partitions, std::span<const edge> edges)
        : store(build(directory.path(), {{nodes, partitions}, 3}, edges)),
          files{directory.path() / "csc.in", directory.path() / "csc.out"},
          graph(lists(neighbor_direction::in), lists(neighbor_direction::out)) {
        build_csc(store, neighbor_direction::in, files.in);
        build_csc(store, neighbor_direction::out, files.out);
    }
    [[nodiscard]] csr<> lists(neighbor_direction d) const {
        return csr<>::from_edges(store.rows().nodes, d, {}, [&](auto&& sink) { store.for_each_edge(sink); });
    }
};

/// True if two graphs have the same lists for all nodes, in each direction, read by position in descending order.
template <class A, class B>
void check_equal_lists(const A& a, const B& b) {
    REQUIRE(a.nodes() == b.nodes());
    CHECK(a.edges() == b.edges());
    const auto ids = some_nodes(a.nodes(), static_cast<std::size_t>(a.nodes()), 1);
    for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
        std::vector<std::uint32_t> degrees(ids.size()), same(ids.size()), offsets{0}, positions;
        a.degrees(ids, d, degrees);
        b.degrees(ids, d, same);
        REQUIRE(degrees == same);
        for (const std::uint32_t degree : degrees) {
            for (std::uint32_t p = degree; p-- > 0;) positions.push_back(p);
            offsets.push_back(static_cast<std::uint32_t>(positions.size()));
        }
        std::vector<node_id> of_a(positions.size()), of_b(positions.size());
        a.neighbors_at({ids, d, offsets, positions}, {of_a});
        b.neighbors_at({ids, d, offsets, positions}, {of_b});
        CHECK((of_a == of_b));
    }
}

/// Returns samples of both samplers for several fan-outs and batches, as bytes.
template <class G, class E = serial_executor>
std::vector<std::string> samples_of(const G& graph, const E& executor = {}) {
    std::vector<std::string> all;
    for (const char* fanout : {"10,10,10", "5+5,3+all", "all"}) {
        const neighbor_options options{parse_fanout(fanout, neighbor_direction::both), false, false, false};
        dense_sampler<> dense(options, 1);
        neighbor_sampler<> layered(options, 1);
        mini_batch_arena arena;
        for (std::uint64_t batch = 0; batch < 2; ++batch) {
            const auto seeds = some_nodes(graph.nodes(), static_cast<std::size_t>(graph.nodes() / 20 + 1), batch);
            (void)dense.sample({0, {0, 0, batch}}, graph, std::span<const node_id>(seeds), executor, arena);
            all.push_back(contents(arena));
            (void)layered.sample({0, {0, 0, batch}}, graph, std::span<const node_id>(seeds), executor, arena);
            all.push_back(contents(arena));
        }
    }
    return all;
}

} // namespace gneiss::test
