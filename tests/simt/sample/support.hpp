#pragma once

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/sample/dense.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/neighbor.hpp>

#include <doctest/doctest.h>
#include <sample/graphs.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Shared by tests of device samplers, emulated or not.
namespace simt_sample {

using namespace gneiss;

inline constexpr serial_executor serial{};

/// Returns edges of a graph with multi-edges, self loops and hubs, isolated nodes, and one node connected with all
/// others in both directions, whose lists have `longest` edges.
template <node_id_type NodeId = node_id>
std::vector<basic_edge<NodeId>> edges_with_star(
    std::uint64_t nodes, std::size_t count, std::size_t longest, std::uint64_t seed) {
    auto edges = test::hub_edges<NodeId>(nodes, count, seed);
    for (std::size_t i = 0; i < longest; ++i) {
        const auto other = static_cast<NodeId>(i * 7 % nodes);
        edges.push_back({other, static_cast<relation_id>(i % 3), NodeId{1}});
        edges.push_back({NodeId{1}, static_cast<relation_id>(i % 2), other});
    }
    return edges;
}

/// Returns device data after synchronizing the stream.
template <class T>
std::vector<T> fetched(cuda::stream& from, const T* data, std::size_t count) {
    std::vector<T> to(count);
    cuda::copy_async(std::span(to), std::span<const T>(data, count), from);
    from.synchronize();
    return to;
}
template <class T>
std::vector<T> listed(std::span<const T> of) {
    return {of.begin(), of.end()};
}

/// Compares a layer on the device with the host's, including its lists by source if present.
inline void check_layer(cuda::stream& from, const cuda::layer_view& got, const gneiss::layer_view& want) {
    const cuda::layer_counts counts = fetched(from, got.counts, 1)[0];
    REQUIRE(counts.targets == want.targets);
    REQUIRE(counts.sources == want.sources);
    REQUIRE(counts.edges == want.edges());
    CHECK(counts.first_target == want.first_target);
    CHECK(counts.targets <= got.target_capacity);
    CHECK(counts.sources <= got.source_capacity);
    CHECK(counts.edges <= got.edge_capacity);
    CHECK((fetched(from, got.offsets, want.offsets.size()) == listed(want.offsets)));
    CHECK((fetched(from, got.neighbors, want.edges()) == listed(want.neighbors)));
    if (got.by_source_offsets == nullptr) return;
    CHECK((fetched(from, got.by_source_offsets, want.by_source_offsets.size()) == listed(want.by_source_offsets)));
    CHECK((fetched(from, got.by_source_edges, want.edges()) == listed(want.by_source_edges)));
    CHECK((fetched(from, got.edge_target, want.edges()) == listed(want.edge_target)));
}

/// Compares the device's sample with the host's.
template <node_id_type NodeId>
void check(cuda::stream& in, cuda::neighbor_sampler<NodeId>& got, const neighbor_sample<NodeId>& want) {
    const cuda::sample_sizes sizes = got.synchronize(in);
    CHECK((sizes.nodes == listed(want.node_counts)));
    REQUIRE(got.layers() == want.layers());
    CHECK(fetched(in, got.node_count(), 1)[0] == want.nodes.size());
    CHECK((fetched(in, got.nodes(), want.nodes.size()) == listed(want.nodes)));
    layer_stack layers;
    layers.assign(want, serial);
    for (std::size_t i = 0; i < layers.size(); ++i) {
        CAPTURE(i);
        const std::size_t hop = layers.size() - 1 - i, first = want.edge_counts[hop], edges = layers[i].edges();
        CHECK(sizes.edges[hop] == edges);
        check_layer(in, got.layer(i), layers[i]);
        if (!want.relations.empty())
            CHECK((fetched(in, got.relations(i), edges) == listed(want.relations.subspan(first, edges))));
        if (!want.edge_ids.empty())
            CHECK((fetched(in, got.edge_ids(i), edges) == listed(want.edge_ids.subspan(first, edges))));
    }
}

/// Compares the device's sample with the host's.
template <node_id_type NodeId>
void check(cuda::stream& in, cuda::dense_sampler<NodeId>& got, const dense_sample<NodeId>& want) {
    const cuda::sample_sizes sizes = got.synchronize(in);
    REQUIRE(sizes.nodes.back() == want.node_ids.size());
    const cuda::dense_view<NodeId> view = got.view();
    CHECK(fetched(in, got.node_count(), 1)[0] == want.node_ids.size());
    CHECK(want.node_ids.size() <= view.node_capacity);
    CHECK(want.edges() <= view.edge_capacity);
    CHECK((fetched(in, view.node_id_offsets, want.node_id_offsets.size()) == listed(want.node_id_offsets)));
    CHECK((fetched(in, view.node_ids, want.node_ids.size()) == listed(want.node_ids)));
    CHECK((fetched(in, view.nbr_offsets, want.nbr_offsets.size()) == listed(want.nbr_offsets)));
    CHECK((fetched(in, view.nbrs, want.edges()) == listed(want.nbrs)));
    CHECK((fetched(in, view.repr_map, want.edges()) == listed(want.repr_map)));
    if (!want.relations.empty()) CHECK((fetched(in, view.relations, want.edges()) == listed(want.relations)));
    if (!want.edge_ids.empty()) CHECK((fetched(in, view.edge_ids, want.edges()) == listed(want.edge_ids)));
    layer_stack layers;
    layers.assign(want, serial);
    REQUIRE(got.layers() == layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
        CAPTURE(i);
        check_layer(in, got.layer(i), layers[i]);
    }
}

/// A sampler and its oracle on a graph.
template <class Sampler, class Oracle, node_id_type NodeId = node_id>
struct compared_samplers {
    const csr_graph<NodeId>& host;
    memory_budget budget{};
    cuda::stream in{};
    cuda::device_graph<NodeId> graph;
    cuda::node_numbers numbers;
    Sampler sampler;
    Oracle oracle;
    mini_batch_arena arena{};

    compared_samplers(const csr_graph<NodeId>& of, const neighbor_options& options, const cuda::sample_capacity& room,
        cuda::source_lists wanted = cuda::source_lists::all, std::uint32_t stamps = ~std::uint32_t{0} - 1)
        : host(of),
          graph(budget, of, in),
          numbers(budget, of.nodes(), stamps),
          sampler(budget, numbers, graph.view(), options, 9, room, wanted),
          oracle(options, 9) {}

    auto expected(
        const batch_key& key, std::span<const NodeId> seeds, std::span<const excluded_edge<NodeId>> excluded = {}) {
        return oracle.sample(key, host, seeds, serial, arena, excluded);
    }
    void compare(
        std::uint64_t index, std::span<const NodeId> seeds, std::span<const excluded_edge<NodeId>> excluded = {}) {
        const batch_key key{0, {0, 0, index}};
        sampler.sample(in, key, seeds, excluded);
        check(in, sampler, expected(key, seeds, excluded));
    }
    /// Compares five batches of up to 12 of 150 nodes, drawn by a recorded sample.
    void compare_replays(const cuda::graph& sample) {
        for (std::uint64_t index = 0; index < 5; ++index) {
            const batch_key key{index % 2, {1, 0, index}};
            const auto seeds = test::some_nodes<NodeId>(150, 1 + 5 * index % 12, index);
            sampler.set(in, key, seeds);
            sample.launch(in);
            check(in, sampler, expected(key, seeds));
        }
    }
};

} // namespace simt_sample
