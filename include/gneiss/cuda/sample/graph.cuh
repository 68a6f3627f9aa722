// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

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

/// A copy of a `csr_graph` for kernels, with its directions and arrays: offsets in device memory, the rest also there
/// or in pinned host memory, which kernels read over the bus, 32 bytes per drawn neighbor.
template <node_id_type NodeId = node_id>
class device_graph {
public:
    /// Copies in `in`; the graph must not change until the stream has passed. Throws `over_budget`, `device_error`.
    /// \param where  memory of neighbors, relations and edge ids: device or pinned
    device_graph(
        memory_budget& budget, const csr_graph<NodeId>& graph, cudaStream_t in, memory_kind where = memory_kind::device)
        : nodes_(graph.nodes()),
          edges_(graph.edges()),
          self_loops_(graph.in().has_self_loops() || graph.out().has_self_loops()),
          in_(budget, graph.in(), in, where),
          out_(budget, graph.out(), in, where) {}

    /// Returns the graph as a kernel argument.
    [[nodiscard]] graph_view<NodeId> view() const noexcept {
        return {nodes_, edges_, in_.view(), out_.view(), self_loops_};
    }

private:
    template <class T>
    class array {
    public:
        array() = default;
        array(memory_budget& budget, const std::string& name, std::span<const T> from, cudaStream_t in,
            memory_kind where) {
            if (where == memory_kind::device) {
                device_ = device_buffer<T>(budget, name, from.size());
                copy_async(device_.span(), from, in);
            } else {
                pinned_ = pinned_buffer<T>(budget, name, from.size());
                std::copy(from.begin(), from.end(), pinned_.span().begin());
            }
        }
        [[nodiscard]] const T* data() const noexcept { return device_.empty() ? pinned_.data() : device_.data(); }

    private:
        device_buffer<T> device_;
        pinned_buffer<T> pinned_;
    };
    struct lists {
        array<edge_index> offsets, edge_ids;
        array<NodeId> neighbors;
        array<relation_id> relations;

        lists(memory_budget& budget, const csr<NodeId>& from, cudaStream_t in, memory_kind where)
            : offsets(budget, "offsets of the graph", from.offsets(), in, memory_kind::device),
              edge_ids(budget, "edge ids of the graph", from.edge_ids(), in, where),
              neighbors(budget, "neighbors of the graph", from.neighbors(), in, where),
              relations(budget, "relations of the graph", from.relations(), in, where) {}
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
