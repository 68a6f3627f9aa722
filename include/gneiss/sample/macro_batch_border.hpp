// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// A graph whose nodes outside of a macro-batch of partitions have no neighbors: its halo, which samplers reach and
/// never expand. Nodes inside keep their whole lists, so a draw is one of all neighbors.
///
///     std::vector<bool> inside(graph.nodes());
///     for (const node_id v : nodes_of_partitions) inside[v] = true;
///     const bordered_graph macro(graph, inside);
///     const auto sample = sampler.sample(key, macro, seeds, executor, arena); // seeds inside
///
/// A view: both arguments outlive it. O(1) per node more than the graph. Thread-safe while `inside` is constant.
/// Source: Joestar, thesis, §5.2.2.
template <neighbor_source G>
class bordered_graph {
public:
    using id_type = typename G::id_type;
    static constexpr std::size_t neighbor_batch = G::neighbor_batch;

    /// \param inside  [nodes] true: in the macro-batch
    bordered_graph(const G& graph, const std::vector<bool>& inside) : graph_(graph), inside_(inside) {}

    [[nodiscard]] std::uint64_t nodes() const noexcept { return graph_.nodes(); }
    [[nodiscard]] auto edges() const noexcept { return graph_.edges(); }
    [[nodiscard]] auto id_of(id_type v) const noexcept { return graph_.id_of(v); }
    /// Returns true for a node of the halo, or beyond it.
    [[nodiscard]] bool outside(id_type v) const { return !inside_[v]; }

    void degrees(std::span<const id_type> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        graph_.degrees(ids, d, to);
        for (std::size_t i = 0; i < ids.size(); ++i)
            if (outside(ids[i])) to[i] = 0;
    }
    void neighbors_at(const neighbor_request<id_type>& request, const neighbor_answer<id_type>& answer) const {
        graph_.neighbors_at(request, answer);
    }

private:
    const G& graph_;
    const std::vector<bool>& inside_;
};

} // namespace gneiss
