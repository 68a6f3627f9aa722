// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/graph/csr.hpp>

namespace gneiss::cuda {

/// The neighbors of all nodes in one direction, as in `csr`, readable by kernels.
template <node_id_type NodeId = node_id>
struct adjacency_view {
    const edge_index* offsets = nullptr;    ///< [nodes + 1]; null: not kept
    const NodeId* neighbors = nullptr;      ///< [edges]
    const relation_id* relations = nullptr; ///< [edges], or null
    const edge_index* edge_ids = nullptr;   ///< [edges], or null
};

/// A graph as a kernel argument. Ids are dataset ids.
template <node_id_type NodeId = node_id>
struct graph_view {
    std::uint64_t nodes = 0;            ///< number of nodes
    edge_index edges = 0;               ///< number of edges
    adjacency_view<NodeId> in{}, out{}; ///< lists of each direction; empty if not stored
    bool self_loops = false;            ///< an edge is a self loop
};

/// A copy of a `csr_graph` in device memory for kernels, with its directions and arrays.
template <node_id_type NodeId = node_id>
class device_graph {
public:
    /// Copies in `in`; the graph must not change until the stream has passed. Throws `over_budget`, `device_error`.
    device_graph(memory_budget& budget, const csr_graph<NodeId>& graph, cudaStream_t in)
        : nodes_(graph.nodes()),
          edges_(graph.edges()),
          self_loops_(graph.in().has_self_loops() || graph.out().has_self_loops()),
          in_(budget, graph.in(), in),
          out_(budget, graph.out(), in) {}

    /// Returns the graph as a kernel argument.
    [[nodiscard]] graph_view<NodeId> view() const noexcept {
        return {nodes_, edges_, in_.view(), out_.view(), self_loops_};
    }

private:
    struct lists {
        device_buffer<edge_index> offsets, edge_ids;
        device_buffer<NodeId> neighbors;
        device_buffer<relation_id> relations;

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
            return {offsets.data(), neighbors.data(), relations.data(), edge_ids.data()};
        }
    };

    std::uint64_t nodes_;
    edge_index edges_;
    bool self_loops_;
    lists in_, out_;
};

} // namespace gneiss::cuda
