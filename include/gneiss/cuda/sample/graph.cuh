// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/error.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/graph/csr.hpp>
#include <gneiss/sample/graph_lists.hpp>

namespace gneiss::cuda {

/// The neighbors of all nodes in one direction, as in `csr`, readable by kernels.
template <node_id_type NodeId = node_id>
struct adjacency_view {
    const edge_index* offsets = nullptr;    ///< [nodes + 1]; null: not kept
    const NodeId* neighbors = nullptr;      ///< [edges]
    const relation_id* relations = nullptr; ///< [edges], or null
    const edge_index* edge_ids = nullptr;   ///< [edges], or null
    const float* weights = nullptr;         ///< [edges] at least 0 and finite, or null: all are equal
};

/// A graph as a kernel argument. Ids are dataset ids, unless nodes have names.
template <node_id_type NodeId = node_id>
struct graph_view {
    std::uint64_t nodes = 0;            ///< number of nodes
    edge_index edges = 0;               ///< number of edges
    adjacency_view<NodeId> in{}, out{}; ///< lists of each direction; empty if not stored
    bool self_loops = false;            ///< an edge is a self loop
    /// each hop has lists of its own: those of hop h have their offsets h · hop_stride further on; 0: all have the same
    std::uint64_t hop_stride = 0;
    const NodeId* names = nullptr; ///< [nodes] dataset ids, of which random keys are; null: those of the nodes
};

/// A copy of a `csr_graph` in device memory for kernels, with its directions and arrays.
template <node_id_type NodeId = node_id>
class device_graph {
public:
    /// The weight of an edge by its id; empty: all are equal.
    using weight_function = std::function<float(edge_index)>;

    /// Copies in `in`; the graph must not change until the stream has passed. With weights, waits. Throws
    /// `over_budget`, `device_error`; errc::not_finite for a weight that is negative, infinite or NaN;
    /// errc::invalid_argument for weights of a graph without edge ids.
    device_graph(
        memory_budget& budget, const csr_graph<NodeId>& graph, cudaStream_t in, const weight_function& weight = {})
        : nodes_(graph.nodes()),
          edges_(graph.edges()),
          self_loops_(graph.in().has_self_loops() || graph.out().has_self_loops()),
          in_(budget, graph.in(), in),
          out_(budget, graph.out(), in) {
        if (!weight) return;
        weigh(budget, graph.in(), weight, in, in_);
        weigh(budget, graph.out(), weight, in, out_);
    }

    /// Copies the lists of a graph in any store, in some directions, without relations, and waits. Host memory: 16
    /// bytes for each of 2^20 edges, or for each of the longest list, 8 with edge ids, and 12 with weights. Throws
    /// `over_budget`, `device_error`; errc::not_finite as above; errors of the graph.
    /// \param edge_ids  whether to copy them, too
    device_graph(memory_budget& budget, const graph_lists& graph, neighbor_direction keeps, bool edge_ids, stream& in,
        const weight_function& weight = {})
        requires std::same_as<NodeId, node_id>
        : nodes_(graph.nodes()) {
        if (keeps != neighbor_direction::out) copy(budget, graph, neighbor_direction::in, edge_ids, weight, in, in_);
        if (keeps != neighbor_direction::in) copy(budget, graph, neighbor_direction::out, edge_ids, weight, in, out_);
    }
    /// Returns the memory of such a copy, of at most `edges` edges.
    [[nodiscard]] static memory_need need(
        std::uint64_t nodes, edge_index edges, neighbor_direction keeps, bool edge_ids, bool weighted = false) {
        const std::uint64_t sides = keeps == neighbor_direction::both ? 2 : 1,
                            edge =
                                sizeof(NodeId) + (edge_ids ? sizeof(edge_index) : 0) + (weighted ? sizeof(float) : 0);
        return {"graph for sampling", sides * ((nodes + 1) * sizeof(edge_index) + edges * edge), memory_kind::device};
    }

    /// Returns the graph as a kernel argument.
    [[nodiscard]] graph_view<NodeId> view() const noexcept {
        return {nodes_, edges_, in_.view(), out_.view(), self_loops_};
    }

private:
    struct lists {
        device_buffer<edge_index> offsets, edge_ids;
        device_buffer<NodeId> neighbors;
        device_buffer<relation_id> relations;
        device_buffer<float> weights;

        lists() = default;
        lists(memory_budget& budget, const csr<NodeId>& from, cudaStream_t in)
            : offsets(budget, "offsets of the graph", from.offsets().size()),
              edge_ids(budget, "edge ids of the graph", from.edge_ids().size()),
              neighbors(budget, "neighbors of the graph", from.neighbors().size()),
              relations(budget, "relations of the graph", from.relations().size()) {
            copy_async(offsets.span(), from.offsets(), in);
            copy_async(edge_ids.span(), from.edge_ids(), in);
            copy_async(neighbors.span(), from.neighbors(), in);
            copy_async(relations.span(), from.relations(), in);
        }
        [[nodiscard]] adjacency_view<NodeId> view() const noexcept {
            return {offsets.data(), neighbors.data(), relations.data(), edge_ids.data(), weights.data()};
        }
    };

    /// Returns weights of edges. Throws errc::not_finite.
    [[nodiscard]] static std::vector<float> weights_of(
        std::span<const edge_index> edges, const weight_function& weight) {
        std::vector<float> result(edges.size());
        for (std::size_t i = 0; i < edges.size(); ++i) {
            const float w = result[i] = weight(edges[i]);
            if (!(w >= 0) || std::isinf(w))
                throw error(errc::not_finite, "the weight of an edge is negative or not finite");
        }
        return result;
    }
    /// Copies the weights of lists, and waits.
    static void weigh(
        memory_budget& budget, const csr<NodeId>& from, const weight_function& weight, cudaStream_t in, lists& to) {
        if (from.edge_ids().size() != from.neighbors().size())
            throw error(errc::invalid_argument, "weights of edges need a graph with edge ids");
        const std::vector<float> weights = weights_of(from.edge_ids(), weight);
        to.weights = room_for_weights(budget, weights.size());
        copy_async(to.weights.span(), weights, in);
        check(cudaStreamSynchronize(in), "copying weights");
    }
    /// Returns room for the weights of edges, also for those of none: null says that all are equal.
    [[nodiscard]] static device_buffer<float> room_for_weights(memory_budget& budget, std::uint64_t edges) {
        return {budget, "weights of the graph", static_cast<std::size_t>(std::max<std::uint64_t>(edges, 1))};
    }

    /// Copies the lists of one direction, some nodes at a time: first their ends, then the neighbors.
    void copy(memory_budget& budget, const graph_lists& graph, neighbor_direction d, bool edge_ids,
        const weight_function& weight, stream& in, lists& to) {
        constexpr std::size_t some = std::size_t{1} << 20;
        std::vector<node_id> ids, neighbors;
        std::vector<std::uint32_t> degrees, offsets, positions;
        std::vector<edge_index> ends, edges;
        const auto take_degrees = [&](std::uint64_t first, std::size_t count) {
            ids.resize(count);
            std::iota(ids.begin(), ids.end(), static_cast<node_id>(first));
            degrees.resize(count);
            graph.degrees(ids, d, degrees);
        };
        to.offsets = device_buffer<edge_index>(budget, "offsets of the graph", static_cast<std::size_t>(nodes_ + 1));
        fill_bytes_async(to.offsets.span().first(1), 0, in);
        edge_index sum = 0;
        for (std::uint64_t first = 0; first < nodes_; first += degrees.size()) {
            take_degrees(first, static_cast<std::size_t>(std::min<std::uint64_t>(some, nodes_ - first)));
            ends.clear();
            for (const std::uint32_t degree : degrees) ends.push_back(sum += degree);
            copy_async(to.offsets.span().subspan(static_cast<std::size_t>(first) + 1), ends, in);
            in.synchronize(); // `ends` is written again
        }
        edges_ = sum;
        to.neighbors = device_buffer<node_id>(budget, "neighbors of the graph", static_cast<std::size_t>(sum));
        if (edge_ids) // also those of no edge: null says that there are none
            to.edge_ids = device_buffer<edge_index>(
                budget, "edge ids of the graph", static_cast<std::size_t>(std::max<edge_index>(sum, 1)));
        if (weight) to.weights = room_for_weights(budget, sum);
        std::size_t copied = 0;
        for (std::uint64_t first = 0; first < nodes_; first += ids.size()) {
            take_degrees(first, static_cast<std::size_t>(std::min<std::uint64_t>(some / 16, nodes_ - first)));
            offsets.assign(1, 0);
            std::size_t count = 0; // of nodes, one at least
            while (count < ids.size() && (count == 0 || offsets.back() + std::uint64_t{degrees[count]} <= some))
                offsets.push_back(offsets.back() + degrees[count++]);
            ids.resize(count);
            positions.resize(offsets.back());
            for (std::size_t i = 0; i < count; ++i)
                std::iota(positions.begin() + offsets[i], positions.begin() + offsets[i + 1], 0U);
            neighbors.resize(positions.size());
            edges.resize(edge_ids || weight ? positions.size() : 0);
            graph.neighbors_at({ids, d, offsets, positions}, {.neighbors = neighbors, .edge_ids = edges});
            for (std::size_t i = 0; i < count && !self_loops_; ++i)
                self_loops_ = std::find(neighbors.begin() + offsets[i], neighbors.begin() + offsets[i + 1], ids[i]) !=
                    neighbors.begin() + offsets[i + 1];
            std::vector<float> weights;
            if (weight) weights = weights_of(edges, weight); // may throw, before the first copy
            copy_async(to.neighbors.span().subspan(copied), neighbors, in);
            if (edge_ids) copy_async(to.edge_ids.span().subspan(copied), edges, in);
            if (weight) copy_async(to.weights.span().subspan(copied), weights, in);
            in.synchronize();
            copied += neighbors.size();
        }
    }

    std::uint64_t nodes_;
    edge_index edges_ = 0;
    bool self_loops_ = false;
    lists in_, out_;
};

} // namespace gneiss::cuda
