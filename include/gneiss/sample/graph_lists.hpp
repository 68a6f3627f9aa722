// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

class macro_batch;

/// A `neighbor_source` without its type: a reference to a graph whose lists a device copies.
///
///     const graph_lists lists(graph);   // a csr_graph, the graph of a state, a mapped file
///
/// Precondition: the graph outlives this, and its ids are those of random keys, unless it is a macro-batch. Cost: an
/// indirect call per request.
class graph_lists {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 256;

    /// Refers to a graph.
    template <neighbor_source G>
        requires(std::same_as<typename G::id_type, node_id> && !std::same_as<G, graph_lists>)
    explicit graph_lists(const G& graph)
        : graph_(&graph),
          nodes_(graph.nodes()),
          degrees_([](const void* of, std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) {
              static_cast<const G*>(of)->degrees(ids, d, to);
          }),
          neighbors_at_([](const void* of, const neighbor_request<>& request, const neighbor_answer<>& answer) {
              static_cast<const G*>(of)->neighbors_at(request, answer);
          }) {
        if constexpr (requires { std::span<const partition_id>(graph.resident()); }) resident_ = graph.resident();
        if constexpr (std::same_as<G, macro_batch>) macro_ = &graph;
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }
    [[nodiscard]] static std::uint64_t id_of(node_id v) noexcept { return v; }
    /// Returns the partitions whose nodes have lists, ascending; empty: all nodes have lists. Graphs of a run with
    /// equal partitions are equal.
    [[nodiscard]] std::span<const partition_id> resident() const noexcept { return resident_; }
    /// Returns the graph if it is a macro-batch, whose nodes have numbers of its own; else null.
    [[nodiscard]] const macro_batch* macro() const noexcept { return macro_; }
    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        degrees_(graph_, ids, d, to);
    }
    void neighbors_at(const neighbor_request<>& request, const neighbor_answer<>& answer) const {
        neighbors_at_(graph_, request, answer);
    }

private:
    const void* graph_;
    std::uint64_t nodes_;
    void (*degrees_)(const void*, std::span<const node_id>, neighbor_direction, std::span<std::uint32_t>);
    void (*neighbors_at_)(const void*, const neighbor_request<>&, const neighbor_answer<>&);
    std::span<const partition_id> resident_{};
    const macro_batch* macro_ = nullptr;
};
static_assert(neighbor_source<graph_lists>);

} // namespace gneiss
