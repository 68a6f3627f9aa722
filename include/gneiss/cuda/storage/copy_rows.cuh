// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>

// Copies of rows between positions: the one kernel for gathers by id, the assembly of batches from a cache, and the
// update of its slots. Copies are bit-exact.
namespace gneiss::cuda {

namespace detail {

/// Row i of *count: from row from_places[i] of `from`, or of `more` beyond the end of `from`, to row to_places[i] of
/// `to`.
template <storage T>
struct row_copies {
    const std::uint32_t* count = nullptr;
    const std::uint32_t* from_places = nullptr; ///< [*count]; null: i
    const std::uint32_t* to_places = nullptr;   ///< [*count], distinct; null: i
    rows_view<const T> from{};
    rows_view<T> to{};
    rows_view<const T> more{};
    std::uint32_t from_rows = std::numeric_limits<std::uint32_t>::max(); ///< places from here on refer to `more`
    bool half_more = false;                                              ///< half a value more follows the columns

    [[nodiscard]] bool aligned() const noexcept {
        return from.aligned() && to.aligned() && (more.data == nullptr || more.aligned());
    }
    [[nodiscard]] __device__ const T* source(std::uint32_t place) const noexcept {
        return place < from_rows ? from[place] : more[place - from_rows];
    }
};

/// Work of one warp: 8 rows per group of lanes, 4 of them in flight. Places are read once per warp.
template <unsigned Lanes>
struct copy_shape {
    static constexpr unsigned groups = warp_lanes / Lanes, turns = 8, flight = 4, warp_rows = turns * groups,
                              threads = 256;

    [[nodiscard]] static dim3 grid(std::size_t rows) {
        return {static_cast<unsigned>(ceil_div(rows, std::size_t{warp_rows * threads / warp_lanes})), 1, 1};
    }
};

template <storage T, unsigned Lanes, bool Aligned>
__global__ void __launch_bounds__(copy_shape<Lanes>::threads) copy_rows(row_copies<T> copies) {
    using shape = copy_shape<Lanes>;
    using slice_type = row_slice<T, Lanes, Aligned>;
    const unsigned lane = threadIdx.x % warp_lanes;
    const std::uint32_t first = grid_warp() * shape::warp_rows;
    const std::uint32_t count = __ldg(copies.count);
    if (first >= count) return;
    const std::uint32_t rows = count - first < shape::warp_rows ? count - first : shape::warp_rows;
    std::uint32_t from_place = first + lane, to_place = first + lane;
    if (lane < rows) {
        if (copies.from_places != nullptr) from_place = __ldg(copies.from_places + first + lane);
        if (copies.to_places != nullptr) to_place = __ldg(copies.to_places + first + lane);
    }
    GNEISS_NO_UNROLL
    for (unsigned turn = 0; turn < shape::turns; turn += shape::flight) {
        const T* from[shape::flight];
        T* to[shape::flight];
        bool there[shape::flight];
        GNEISS_UNROLL
        for (unsigned k = 0; k < shape::flight; ++k) {
            const unsigned row = (turn + k) * shape::groups + lane / Lanes;
            there[k] = row < rows;
            from[k] = copies.source(__shfl_sync(whole_warp, from_place, static_cast<int>(row)));
            to[k] = copies.to[__shfl_sync(whole_warp, to_place, static_cast<int>(row))];
        }
        for (unsigned chunk = 0; chunk * slice_type::columns < copies.to.columns; ++chunk) {
            const slice_type slice(chunk, lane % Lanes, copies.to.columns);
            typename slice_type::packet packets[shape::flight];
            GNEISS_UNROLL
            for (unsigned k = 0; k < shape::flight; ++k) packets[k] = slice.load(from[k], there[k]);
            GNEISS_UNROLL
            for (unsigned k = 0; k < shape::flight; ++k)
                if (there[k]) slice.store(to[k], packets[k]);
        }
        if constexpr (Aligned)
            if (copies.half_more && lane % Lanes == 0) {
                GNEISS_UNROLL
                for (unsigned k = 0; k < shape::flight; ++k)
                    if (there[k])
                        write(reinterpret_cast<bfloat16*>(to[k] + copies.to.columns),
                            read(reinterpret_cast<const bfloat16*>(from[k] + copies.to.columns)));
            }
    }
}

/// Returns the same rows as floats. Precondition: they are aligned.
[[nodiscard]] inline row_copies<float> as_floats(const row_copies<bfloat16>& of) {
    const auto view = []<class From>(const From& rows) {
        using to = std::conditional_t<std::is_same_v<From, rows_view<bfloat16>>, float, const float>;
        return rows_view<to>(reinterpret_cast<to*>(rows.data), rows.columns / 2, rows.stride / 2);
    };
    return {of.count, of.from_places, of.to_places, view(of.from), view(of.to), view(of.more), of.from_rows,
        of.to.columns % 2 != 0};
}

/// Starts the copy of at most `capacity` rows.
template <storage T>
void start_copies(cudaStream_t stream, std::uint32_t capacity, const row_copies<T>& copies) {
    constexpr bool narrow = std::is_same_v<T, bfloat16>;
    if constexpr (narrow)
        if (copies.aligned()) return start_copies<float>(stream, capacity, as_floats(copies));
    with_slices<T>(copies.to.columns, copies.aligned(), [&]<class Slice>(Slice) {
        using shape = copy_shape<Slice::lanes>;
        if constexpr (!(narrow && Slice::aligned))
            launch(
                stream, copy_rows<T, Slice::lanes, Slice::aligned>, shape::grid(capacity), shape::threads, 0, copies);
    });
}

} // namespace detail

/// out[i] = table[ids[i]] for i < *count ≤ capacity. The table may be in device memory or in pinned host memory; then
/// only the requested rows are read over the bus, each whole, in requests of adjacent lanes.
///
/// ids [*count] below the table's rows, repeats allowed; out [*count, columns of the table]. Cost: 4 bytes per id, and
/// a row read and written; 16 bytes per lane if both are `aligned()`; a warp has 4 to 16 rows in flight. Asynchronous.
template <storage T>
void gather_rows(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const node_id* ids,
    rows_view<const T> table, rows_view<T> out) {
    detail::start_copies<T>(stream, capacity, {count, ids, nullptr, table, out});
}

/// out[i] = slots[p] if p = places[i] is below `slot_rows`, else missing[p − slot_rows]: assembles a batch from cache
/// hits and misses. Otherwise as `gather_rows`.
template <storage T>
void assemble_rows(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity, const std::uint32_t* places,
    rows_view<const T> slots, std::uint32_t slot_rows, rows_view<const T> missing, rows_view<T> out) {
    detail::start_copies<T>(stream, capacity, {count, places, nullptr, slots, out, missing, slot_rows});
}

/// slots[slot_of[i]] = gathered[in_position[i]] for i < *count ≤ capacity: copies a change set's incoming rows from a
/// batch directly to their slots. in_position null: i; slot_of distinct; gathered does not overlap slots. Otherwise as
/// `gather_rows`.
/// Source: Ginex (VLDB'22), section 3.3, "Feature Cache Update".
template <storage T>
void update_slots(cudaStream_t stream, const std::uint32_t* count, std::uint32_t capacity,
    const std::uint32_t* in_position, const std::uint32_t* slot_of, rows_view<const T> gathered, rows_view<T> slots) {
    detail::start_copies<T>(stream, capacity, {count, in_position, slot_of, gathered, slots});
}

} // namespace gneiss::cuda
