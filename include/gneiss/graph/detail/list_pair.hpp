// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss::detail {

/// The self loops of a node in its list: positions [first, first + count).
struct self_loop_run {
    std::uint32_t first = 0, count = 0;
};

/// Returns the self loops of node v in its list, which is ascending. O(log degree).
template <node_id_type NodeId>
[[nodiscard]] self_loop_run self_loops_in(std::span<const NodeId> list, NodeId v) noexcept {
    const auto [first, last] = std::ranges::equal_range(list, v);
    return {static_cast<std::uint32_t>(first - list.begin()), static_cast<std::uint32_t>(last - first)};
}

/// Lists addressed by a request: those of one direction, or the outgoing lists followed by the incoming ones without
/// self loops, which are among the outgoing ones.
///
/// `Lists` has begin(v) and degree(v), both from its offsets, prefetch_offsets(v) and self_loops(v).
template <class Lists>
struct list_pair {
    const Lists* first = nullptr;
    const Lists* second = nullptr; ///< null: one direction

    /// \param in, out  null: not stored. Throws `invalid_argument` if the direction needs it.
    [[nodiscard]] static list_pair of(const Lists* in, const Lists* out, neighbor_direction d) {
        if ((d != neighbor_direction::out && in == nullptr) || (d != neighbor_direction::in && out == nullptr))
            throw error(errc::invalid_argument, "the graph does not store this direction");
        if (d == neighbor_direction::both) return {out, in};
        return {d == neighbor_direction::in ? in : out, nullptr};
    }

    template <node_id_type NodeId>
    void prefetch_offsets(NodeId v) const noexcept {
        first->prefetch_offsets(v);
        if (second != nullptr) second->prefetch_offsets(v);
    }

    template <node_id_type NodeId>
    void degrees(std::span<const NodeId> ids, std::span<std::uint32_t> to) const noexcept {
        constexpr std::size_t ahead = 24;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i + ahead < ids.size()) prefetch_offsets(ids[i + ahead]);
            to[i] = first->degree(ids[i]) +
                (second != nullptr ? second->degree(ids[i]) - second->self_loops(ids[i]).count : 0U);
        }
    }

    /// Calls visit(lists, place, k) for each position k of the request; `place` indexes all neighbors of those lists.
    template <node_id_type NodeId, class Visit>
    void for_each_place(const neighbor_request<NodeId>& request, Visit&& visit) const {
        std::size_t k = 0;
        for (std::size_t i = 0; i < request.ids.size(); ++i) {
            const std::size_t end = request.offsets[i + 1] - request.offsets[0];
            const auto begin = static_cast<std::size_t>(first->begin(request.ids[i]));
            if (second == nullptr) {
                for (; k < end; ++k) visit(*first, begin + request.positions[k], k);
                continue;
            }
            const std::uint32_t outgoing = first->degree(request.ids[i]);
            const auto other = static_cast<std::size_t>(second->begin(request.ids[i]));
            const self_loop_run loops = second->self_loops(request.ids[i]);
            for (; k < end; ++k) {
                const std::uint32_t position = request.positions[k];
                if (position < outgoing)
                    visit(*first, begin + position, k);
                else
                    visit(*second,
                        other + (position - outgoing) + (position - outgoing < loops.first ? 0 : loops.count), k);
            }
        }
    }

    /// Answers a request from lists whose neighbors(), relations() and edge_ids() are in memory. Throws
    /// `invalid_argument` for relations or edge ids that are not stored.
    template <node_id_type NodeId>
    void answer(const neighbor_request<NodeId>& request, const neighbor_answer<NodeId>& to) const {
        for (const Lists* kept : {first, second})
            if (kept != nullptr &&
                ((!to.relations.empty() && kept->relations().size() != kept->edges()) ||
                    (!to.edge_ids.empty() && kept->edge_ids().size() != kept->edges())))
                throw error(errc::invalid_argument, "the graph does not store the requested relations or edge ids");
        // Prefetch all lines before reading the first one.
        for_each_place(request,
            [&](const Lists& from, std::size_t place, std::size_t) { prefetch(from.neighbors().data() + place); });
        for_each_place(request, [&](const Lists& from, std::size_t place, std::size_t k) {
            to.neighbors[k] = from.neighbors()[place];
            if (!to.relations.empty()) to.relations[k] = from.relations()[place];
            if (!to.edge_ids.empty()) to.edge_ids[k] = from.edge_ids()[place];
        });
    }
};

} // namespace gneiss::detail
