// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/bulk_copy.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/block/reduce_lists.cuh>
#include <gneiss/cuda/model/device/aggregate.cuh>

// `aggregate` of wide rows by asynchronous copies into shared memory instead of loads into registers: more rows in
// flight, and no registers for them.
namespace gneiss::cuda {

/// Transfer of neighbors' rows to a kernel.
enum class row_path : std::uint8_t {
    registers, ///< loads of 16 bytes per lane, or less if rows are not aligned
    copies     ///< `detail::bulk_row_copy`
};

namespace detail {

/// Buffers of a warp's rows in flight: 16 slices of 512 bytes each.
using slice_copies = bulk_row_copy<16, warp_lanes * 16>;
inline constexpr unsigned copies_at_once = 16;

/// `sum_reducer` whose rows are copied before they are reduced.
template <storage T>
class copying_sum : public sum_reducer<T, warp_lanes, true> {
    using base = sum_reducer<T, warp_lanes, true>;
    using slice_type = row_slice<T, warp_lanes, true>;

public:
    __device__ copying_sum(const edge_lists& lists, edge_weight weight, rows_view<const T> in, rows_view<T> out,
        slice_copies::memory& memory)
        : base(lists, weight, in, out),
          in_(in),
          first_(blockIdx.y * slice_type::columns),
          bytes_(round_up(min(in.columns - first_, slice_type::columns) * static_cast<unsigned>(sizeof(T)), 16U)),
          copies_(memory) {}

    __device__ void begin_copy(unsigned slot, std::uint32_t row) { copies_.begin(slot, in_[row] + first_, bytes_); }
    __device__ void skip_copy() { copies_.skip(); }
    [[nodiscard]] __device__ typename base::fetched copied(unsigned slot) {
        copies_.wait(slot);
        return *reinterpret_cast<const typename base::fetched*>(copies_.at(slot) + threadIdx.x % warp_lanes * 16);
    }

private:
    rows_view<const T> in_;
    unsigned first_, bytes_;
    slice_copies copies_;
};

/// As for other reducers, but copies the rows of the next places meanwhile.
template <storage T>
__device__ inline void take_places(
    const edge_lists& lists, const edge_lists::list& of, std::uint32_t begin, std::uint32_t end, copying_sum<T>& to) {
    const unsigned lane = threadIdx.x % warp_lanes;
    for (std::uint32_t first = begin; first < end; first += warp_lanes) {
        const unsigned count = min(end - first, warp_lanes);
        edge_lists::edge edge{};
        if (lane < count) edge = lists.at(of, first + lane);
        const float mine = to.look(edge, lane < count);
        if (lane < count) edge.row = lists.lies_at(edge.row);
        const auto begin_copy = [&](unsigned place) {
            const std::uint32_t row = __shfl_sync(whole_warp, edge.row, static_cast<int>(place % warp_lanes));
            if (place < count)
                to.begin_copy(place % copies_at_once, row);
            else
                to.skip_copy();
        };
        GNEISS_NO_UNROLL
        for (unsigned place = 0; place < copies_at_once; ++place) begin_copy(place);
        for (unsigned place = 0; place < count; ++place) {
            const typename copying_sum<T>::fetched row = to.copied(place % copies_at_once);
            to.take(row, __shfl_sync(whole_warp, mine, static_cast<int>(place)), place, true);
            begin_copy(place + copies_at_once);
        }
    }
    to.merge_groups();
}

template <storage T>
__global__ void __launch_bounds__(list_blocks::threads, 3)
    aggregate_by_copies(edge_lists lists, edge_weight weight, rows_view<const T> in, rows_view<T> out) {
    copying_sum<T> reduce(lists, weight, in, out, dynamic_shared<slice_copies::memory>()[threadIdx.x / warp_lanes]);
    reduce_lists(lists, reduce);
}

inline constexpr std::size_t aggregate_copies_bytes = list_blocks::warps * sizeof(slice_copies::memory);

} // namespace detail

/// Returns the path for rows of this shape on a device with this compute capability and shared memory per block
/// [bytes]: copies for rows of 512 bytes and more if they are aligned and the device supports it.
template <storage T>
[[nodiscard]] row_path aggregate_path(
    rows_view<const T> in, rows_view<T> out, int capability_major, std::uint64_t shared_memory) {
    const bool can =
        capability_major >= 8 && shared_memory >= detail::aggregate_copies_bytes + 8192; // 8 KiB: for lists
    return can && in.columns * sizeof(T) >= 512 && in.aligned() && out.aligned() ? row_path::copies
                                                                                 : row_path::registers;
}

/// `aggregate` by a given path; results are bit-identical if rows are at least 512 bytes. Precondition of copies: rows
/// of both are `aligned()`. Cost: that of `aggregate`; a warp has 16 slices of 512 bytes in flight.
template <storage T>
void aggregate(cudaStream_t stream, const edge_lists& lists, edge_weight weight, rows_view<const T> in,
    rows_view<T> out, row_path by) {
    if (by == row_path::registers) return aggregate<T>(stream, lists, weight, in, out);
    GNEISS_ASSERT(in.aligned() && out.aligned());
    const std::size_t chunks = detail::row_slice<T, detail::warp_lanes, true>::chunks(in.columns);
    launch(stream, detail::aggregate_by_copies<T>, detail::list_blocks::grid(lists.capacity, chunks),
        detail::list_blocks::threads, detail::aggregate_copies_bytes, lists, weight, in, out);
}

} // namespace gneiss::cuda
