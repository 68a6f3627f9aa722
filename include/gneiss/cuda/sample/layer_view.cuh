// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/cuda/device_api.cuh>

namespace gneiss::cuda {

/// Values of a layer that change per batch, in device memory, so that a captured step serves any batch.
struct layer_counts {
    std::uint32_t targets = 0;      ///< target rows
    std::uint32_t sources = 0;      ///< source rows
    std::uint32_t edges = 0;        ///< edges
    std::uint32_t first_target = 0; ///< source row of target 0
};

/// `gneiss::layer_view` for devices: lists in device memory with room for the capacities, filled up to the counts.
struct layer_view {
    const layer_counts* counts = nullptr;                                      ///< counts of the batch
    std::uint32_t target_capacity = 0, source_capacity = 0, edge_capacity = 0; ///< maximum counts
    const std::uint32_t* offsets = nullptr;                                    ///< [targets + 1] into neighbors, from 0
    const std::uint32_t* neighbors = nullptr;                                  ///< [edges] source rows
    const std::uint32_t* by_source_offsets = nullptr; ///< [sources + 1] into by_source_edges; null: none
    const std::uint32_t* by_source_edges = nullptr;   ///< [edges] edge positions, ascending per source
    const std::uint32_t* edge_target = nullptr;       ///< [edges] target of each edge

    friend bool operator==(const layer_view&, const layer_view&) = default;
};

/// The lists of a layer in one direction, with a self-loop at the end of each row's list if `loops`. Passed to kernels
/// by value.
struct edge_lists {
    /// The list of one row: places [begin, end); the last is the row's self-loop if it has one.
    struct list {
        std::uint32_t begin, end; ///< first and end place
        std::uint32_t own;        ///< the row that the self-loop leads to, or no_row

        /// Returns the number of edges, the self-loop included.
        [[nodiscard]] __device__ std::uint32_t size() const noexcept { return end - begin; }
    };
    /// An edge of a list: its number among those of the sample, and the row at its other end.
    struct edge {
        std::uint32_t number, row; ///< number among the sample's edges, and row at the other end
    };
    static constexpr std::uint32_t no_row = 0xffffffffU; ///< row of a list without a self-loop

    const layer_counts* counts = nullptr; ///< counts of the batch
    /// Lists of edges by row, and the rows at their other ends.
    const std::uint32_t *offsets = nullptr, *edges = nullptr, *rows = nullptr;
    const std::uint32_t* other_offsets = nullptr; ///< offsets of the lists of the rows at the other ends
    std::uint32_t capacity = 0;                   ///< maximum number of rows with lists
    bool outgoing = false, loops = false;         ///< by source instead of by target; with self-loops
    const std::uint32_t* ids = nullptr;           ///< positions of the other ends' rows in the input; null: in order

    /// Returns the number of rows with lists.
    [[nodiscard]] __device__ std::uint32_t size() const noexcept {
        return outgoing ? counts->sources : counts->targets;
    }

    /// Returns the list of a row.
    [[nodiscard]] __device__ list operator[](std::uint32_t row) const noexcept {
        const std::uint32_t own = other_end(row, outgoing);
        return {__ldg(offsets + row), __ldg(offsets + row + 1) + (own != no_row), own};
    }
    /// Returns the edge at a place of a list; a self-loop has no number. One or two reads.
    [[nodiscard]] __device__ edge at(const list& in, std::uint32_t place) const noexcept {
        if (in.own != no_row && place + 1 == in.end) return {no_row, in.own};
        const std::uint32_t number = edges == nullptr ? place : __ldg(edges + place);
        return {number, __ldg(rows + number)};
    }
    /// Returns the position of the row at an edge's other end.
    [[nodiscard]] __device__ std::uint32_t lies_at(std::uint32_t row) const noexcept {
        return ids == nullptr ? row : __ldg(ids + row);
    }
    /// Returns the length of the list, in the other direction, of the row at an edge's other end.
    [[nodiscard]] __device__ std::uint32_t other_size(std::uint32_t row) const noexcept {
        return __ldg(other_offsets + row + 1) - __ldg(other_offsets + row) + (other_end(row, !outgoing) != no_row);
    }

private:
    /// Returns the end of a row's self-loop: from target to source, or back; none for sources that are not targets.
    [[nodiscard]] __device__ std::uint32_t other_end(std::uint32_t row, bool from_source) const noexcept {
        if (!loops) return no_row;
        if (!from_source) return row + counts->first_target;
        const std::uint32_t target = row - counts->first_target; // wraps for sources before the targets
        return target < counts->targets ? target : no_row;
    }
};

/// Returns lists by target, for a forward pass.
[[nodiscard]] inline edge_lists incoming(const layer_view& view, bool loops = false) noexcept {
    return {
        view.counts, view.offsets, nullptr, view.neighbors, view.by_source_offsets, view.target_capacity, false, loops};
}
/// Returns the same lists, with sources read at rows ids[source] of a larger table, such as features on the device,
/// without copying a sample's rows. Precondition: incoming lists.
[[nodiscard]] inline edge_lists gathered(edge_lists lists, const std::uint32_t* ids) noexcept {
    lists.ids = ids;
    return lists;
}
/// Returns lists by source, for a backward pass. Precondition: they were made.
[[nodiscard]] inline edge_lists outgoing(const layer_view& view, bool loops = false) noexcept {
    return {view.counts, view.by_source_offsets, view.by_source_edges, view.edge_target, view.offsets,
        view.source_capacity, true, loops};
}

} // namespace gneiss::cuda
