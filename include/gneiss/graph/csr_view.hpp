// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/detail/check_lists.hpp>
#include <gneiss/graph/detail/list_pair.hpp>

namespace gneiss {

/// Graph for samplers over compressed sparse rows that exist elsewhere: nothing is copied or owned. Models
/// `neighbor_source`.
///
///     const csr_view graph(indptr, indices); // spans or vectors of scipy, PyTorch Geometric, …: int32 or int64
///     const auto sample = sampler.sample(key, graph, seeds, executor, arena);
///
/// The list of node v is neighbors[offsets[v] … offsets[v + 1]); the id of an edge is its place in `neighbors`, so that
/// an array of weights beside it serves `weighted`. There are no relations. Lists keep their order: sort them by
/// neighbor for the samples that other stores of the same edges give. The arrays outlive this and do not change.
/// Immutable, thread-safe.
template <std::integral Offset = std::int64_t, std::integral Neighbor = std::int64_t>
class csr_view {
public:
    /// Unsigned id of the width of `Neighbor`.
    using id_type = std::conditional_t<sizeof(Neighbor) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;
    static constexpr std::size_t neighbor_batch = 256;
    static_assert(sizeof(Neighbor) == sizeof(id_type), "csr_view: neighbors must be integers of 32 or 64 bits");

    /// \param offsets    [nodes + 1], ascending from 0 to the number of neighbors
    /// \param neighbors  [edges], below the number of nodes
    /// \param direction  meaning of the lists, `in` or `out`: a sampler that draws the other one is refused
    /// Throws errc::invalid_argument for arrays that are no lists, a node with 2³¹ neighbors, or both directions.
    /// O(nodes + edges).
    csr_view(std::span<const Offset> offsets, std::span<const Neighbor> neighbors,
        neighbor_direction direction = neighbor_direction::in)
        : lists_{offsets, neighbors},
          direction_(direction) {
        if (direction == neighbor_direction::both)
            throw error(errc::invalid_argument, "a CSR has the lists of one direction: in or out");
        detail::check_lists(offsets, neighbors, (std::uint64_t{1} << 31) - 1);
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return lists_.starts.size() - 1; }
    [[nodiscard]] edge_index edges() const noexcept { return lists_.ids.size(); }
    [[nodiscard]] std::uint64_t id_of(id_type v) const noexcept { return v; }

    void degrees(std::span<const id_type> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        lists(d).degrees(ids, to);
    }

    void neighbors_at(const neighbor_request<id_type>& request, const neighbor_answer<id_type>& answer) const {
        if (!answer.relations.empty()) throw error(errc::invalid_argument, "the graph does not store relations");
        const auto from = lists(request.direction);
        from.for_each_place(
            request, [](const arrays& of, std::size_t place, std::size_t) { prefetch(of.ids.data() + place); });
        from.for_each_place(request, [&](const arrays& of, std::size_t place, std::size_t k) {
            answer.neighbors[k] = static_cast<id_type>(of.ids[place]);
            if (!answer.edge_ids.empty()) answer.edge_ids[k] = place;
        });
    }

private:
    struct arrays {
        std::span<const Offset> starts;
        std::span<const Neighbor> ids;

        [[nodiscard]] edge_index begin(id_type v) const noexcept {
            return static_cast<edge_index>(starts[static_cast<std::size_t>(v)]);
        }
        [[nodiscard]] std::uint32_t degree(id_type v) const noexcept {
            return static_cast<std::uint32_t>(begin(v + 1) - begin(v));
        }
        void prefetch_offsets(id_type v) const noexcept { prefetch(starts.data() + v); }
        [[nodiscard]] static detail::self_loop_run self_loops(id_type /*v*/) noexcept {
            return {};
        } // of two directions only
    };

    [[nodiscard]] detail::list_pair<arrays> lists(neighbor_direction d) const {
        return detail::list_pair<arrays>::of(direction_ == neighbor_direction::in ? &lists_ : nullptr,
            direction_ == neighbor_direction::out ? &lists_ : nullptr, d);
    }

    arrays lists_;
    neighbor_direction direction_;
};

static_assert(neighbor_source<csr_view<>> && neighbor_source<csr_view<std::int32_t, std::int32_t>>);

/// Deduces the types of the arrays.
template <std::ranges::contiguous_range Offsets, std::ranges::contiguous_range Neighbors>
csr_view(const Offsets&, const Neighbors&, neighbor_direction = neighbor_direction::in)
    -> csr_view<std::ranges::range_value_t<Offsets>, std::ranges::range_value_t<Neighbors>>;

} // namespace gneiss
