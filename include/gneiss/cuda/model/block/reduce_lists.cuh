// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>

namespace gneiss::cuda::detail {

/// Assignment of lists to warps: one list per warp; all warps of a block share its long lists. Block y counts chunks of
/// columns.
struct list_blocks {
    static constexpr unsigned warps = 8;
    static constexpr unsigned threads = warps * warp_lanes;
    static constexpr std::uint32_t long_list = 512; ///< places of a list that one warp processes alone

    [[nodiscard]] static dim3 grid(std::uint32_t lists, std::size_t chunks) {
        return {ceil_div(lists, std::uint32_t{warps}), static_cast<unsigned>(chunks), 1};
    }
};

/// Reduces a list of edges by one warp. Each of its `lanes` lanes reads a part of a row; with fewer than 32 lanes,
/// groups of lanes take edges in turn. All lanes of the warp make all calls, in this order:
///
///     r.begin(row, list)              nothing is reduced yet
///     p = r.look(edge, there)         one edge per lane, up to 32 at once; p is passed on with the edge
///     f = r.fetch(row, there)         its row; `flight` fetches of a group are in flight at once
///     r.take(f, p, place, there)      in order of places; place counts from the last look
///     r.merge_groups()                combines the groups
///     r.save(saved); r.add(saved)     combines warps, in their order; add is called after begin
///     r.finish(row, list)             writes the result
template <class R>
concept list_reducer = requires(R& r, const R& c, std::uint32_t row, const edge_lists::list& list,
    const edge_lists::edge& edge, bool there, unsigned place, typename R::saved& saved, const typename R::payload& p,
    const typename R::fetched& f) {
    { R::lanes } -> std::convertible_to<unsigned>;
    { R::flight } -> std::convertible_to<unsigned>;
    r.begin(row, list);
    { r.look(edge, there) } -> std::same_as<typename R::payload>;
    { c.fetch(row, there) } -> std::same_as<typename R::fetched>;
    r.take(f, p, place, there);
    r.merge_groups();
    c.save(saved);
    r.add(saved);
    c.finish(row, list);
};

/// Common part of reducers that sum the values of a lane's columns.
template <class Slice>
class column_sums {
public:
    struct saved {
        float sum[Slice::columns];
    };

    __device__ void merge_groups() { add_groups<Slice::lanes>(sum_); }
    __device__ void save(saved& to) const { slice_.keep(to.sum, sum_); }
    __device__ void add(const saved& from) {
        GNEISS_UNROLL
        for (unsigned k = 0; k < Slice::size; ++k) sum_[k] += from.sum[slice_.place(k)];
    }

protected:
    __device__ explicit column_sums(std::uint32_t columns) : slice_(blockIdx.y, threadIdx.x % Slice::lanes, columns) {}
    __device__ void clear() {
        GNEISS_UNROLL
        for (float& sum : sum_) sum = 0;
    }
    __device__ void add_scaled(const typename Slice::packet& row, float by) {
        GNEISS_UNROLL
        for (unsigned k = 0; k < Slice::size; ++k) sum_[k] += by * row[k];
    }

    Slice slice_;
    float sum_[Slice::size];
};

/// Reduces places [begin, end) of a list by one warp: looks up 32 edges at once, one per lane, and shuffles them.
template <list_reducer R>
__device__ inline void take_places(
    const edge_lists& lists, const edge_lists::list& of, std::uint32_t begin, std::uint32_t end, R& to) {
    constexpr unsigned groups = warp_lanes / R::lanes;
    const unsigned lane = threadIdx.x % warp_lanes, group = lane / R::lanes;
    for (std::uint32_t first = begin; first < end; first += warp_lanes) {
        const unsigned count = min(end - first, warp_lanes);
        edge_lists::edge edge{};
        if (lane < count) edge = lists.at(of, first + lane);
        const typename R::payload mine = to.look(edge, lane < count);
        if (lane < count) edge.row = lists.lies_at(edge.row);
        for (unsigned next = 0; next < count; next += groups * R::flight) {
            typename R::fetched row[R::flight];
            typename R::payload along[R::flight];
            GNEISS_UNROLL
            for (unsigned f = 0; f < R::flight; ++f) {
                const unsigned place = next + f * groups + group;
                const std::uint32_t which = __shfl_sync(whole_warp, edge.row, static_cast<int>(place % warp_lanes));
                along[f] = __shfl_sync(whole_warp, mine, static_cast<int>(place % warp_lanes));
                row[f] = to.fetch(which, place < count);
            }
            GNEISS_UNROLL
            for (unsigned f = 0; f < R::flight; ++f) {
                const unsigned place = next + f * groups + group;
                to.take(row[f], along[f], place % warp_lanes, place < count);
            }
        }
    }
    to.merge_groups();
}

/// Reduces list blockIdx.x · warps + warp and, with the other warps, the long lists of the block. All threads of blocks
/// of `list_blocks` call.
template <list_reducer R>
__device__ inline void reduce_lists(const edge_lists& lists, R& to) {
    constexpr unsigned warps = list_blocks::warps;
    __shared__ typename R::saved saved[warps];
    __shared__ edge_lists::list of_block[warps];
    const unsigned warp = threadIdx.x / warp_lanes;
    const std::uint32_t first = blockIdx.x * warps;
    if (threadIdx.x % warp_lanes == 0) {
        of_block[warp] = {0, 0, edge_lists::no_row};
        if (first + warp < lists.size()) of_block[warp] = lists[first + warp];
    }
    __syncthreads();
    for (unsigned turn = 0; turn <= warps; ++turn) {
        const bool together = turn < warps; // on the long lists of the block, one by one; then each warp on its own
        const std::uint32_t row = first + (together ? turn : warp);
        const edge_lists::list list = of_block[together ? turn : warp];
        if ((list.size() > list_blocks::long_list) != together || row >= lists.size()) continue;
        const std::uint32_t share = together ? (list.size() + warps - 1) / warps : list.size();
        const std::uint32_t begin = together ? min(list.begin + warp * share, list.end) : list.begin;
        to.begin(row, list);
        take_places(lists, list, begin, min(begin + share, list.end), to);
        if (together) {
            to.save(saved[warp]);
            __syncthreads();
            if (warp == turn) {
                to.begin(row, list);
                for (unsigned w = 0; w < warps; ++w) to.add(saved[w]);
            }
        }
        if (!together || warp == turn) to.finish(row, list);
        if (together) __syncthreads();
    }
}

} // namespace gneiss::cuda::detail
