// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/model/block/product.cuh>
#include <gneiss/cuda/model/warp/mma_tile.cuh>

// Two chained products without the intermediate in memory: scores of two tiles of rows become weights in registers, and
// multiply the rows of one of the tiles.
namespace gneiss::cuda::detail {

/// A block's own tile of `size` rows of up to Width columns, the other tile that it is multiplied with, and the weights
/// of one's rows for the other's; 4 × 2 warps have 16 rows and half the columns of a product each. Rows start in
/// different banks.
template <storage T, unsigned Width>
class score_tile {
    using mma = mma_tile<T>;
    static constexpr unsigned stride = Width + 16 / sizeof(T), weight_stride = 64 + 16 / sizeof(T);

public:
    static constexpr unsigned threads = 256, size = 64, warps = threads / warp_lanes;
    static constexpr unsigned score_tiles = 4, sum_tiles = Width / 16; ///< per warp, of 8 columns
    static constexpr std::size_t shared_bytes = (2 * size * stride + size * weight_stride) * sizeof(T);
    using scores = float[score_tiles][4];
    using sums = float[sum_tiles][4];

    T *const own = dynamic_shared<T>(), *const other = own + size * stride, *const weights = other + size * stride;

    /// The two rows that a thread holds values of.
    [[nodiscard]] __device__ static unsigned row(unsigned half) { return warp() / 2 * 16 + half * 8 + lane() / 4; }

    /// Fills a tile, row r from row which(r) of memory; zeros for no_row and beyond the columns.
    template <class Which>
    __device__ void load(T* tile, rows_view<const T> in, bool aligned, Which&& which) const {
        const operand<T, false> from{in, no_row, in.columns, {}, aligned};
        GNEISS_NO_UNROLL
        for (unsigned at = threadIdx.x; at < size * Width / 4; at += threads) {
            const unsigned r = at / (Width / 4), c = at % (Width / 4) * 4;
            float x[4];
            from.read_four(which(r), c, x);
            GNEISS_UNROLL
            for (unsigned k = 0; k < 4; ++k) tile[r * stride + c + k] = narrow<T>(x[k]);
        }
    }
    /// out[r] = ‖row r of tile‖².
    __device__ void squares(const T* tile, float* out) const {
        const unsigned r = threadIdx.x / 4;
        float sum = 0;
        for (unsigned c = threadIdx.x % 4; c < Width; c += 4)
            sum += widen(tile[r * stride + c]) * widen(tile[r * stride + c]);
        for (int apart = 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(whole_warp, sum, apart);
        if (threadIdx.x % 4 == 0) out[r] = sum;
    }
    /// to = own · otherᵀ.
    __device__ void multiply(scores& to, unsigned columns) const {
        GNEISS_UNROLL
        for (auto& tile : to) GNEISS_UNROLL
        for (float& x : tile) x = 0;
        GNEISS_NO_UNROLL
        for (unsigned k = 0; k < columns; k += mma::depth) {
            const typename mma::a_fragment a = mma::load_a(own + warp() / 2 * 16 * stride + k, stride);
            GNEISS_UNROLL
            for (unsigned j = 0; j < score_tiles; ++j)
                mma::multiply_add(to[j], a, mma::load_b(other + (warp() % 2 * 32 + j * 8) * stride + k, stride));
        }
    }
    /// to += weights · other.
    __device__ void add_weighted(sums& to) const {
        GNEISS_NO_UNROLL
        for (unsigned k = 0; k < size; k += mma::depth) {
            const typename mma::a_fragment a =
                mma::load_a(weights + warp() / 2 * 16 * weight_stride + k, weight_stride);
            GNEISS_UNROLL
            for (unsigned j = 0; j < sum_tiles; ++j)
                mma::multiply_add(
                    to[j], a, mma::load_b_across(other + k * stride + warp() % 2 * (Width / 2) + j * 8, stride));
        }
    }
    /// Calls f(half, row, column, value) for every value of this thread.
    template <class F>
    __device__ static void for_each_score(scores& of, F&& f) {
        GNEISS_UNROLL
        for (unsigned j = 0; j < score_tiles; ++j) GNEISS_UNROLL
        for (unsigned v = 0; v < 4; ++v)
            f(v / 2, row(v / 2), warp() % 2 * 32 + j * 8 + lane() % 4 * 2 + v % 2, of[j][v]);
    }
    template <class F>
    __device__ static void for_each_sum(const sums& of, F&& f) {
        GNEISS_UNROLL
        for (unsigned j = 0; j < sum_tiles; ++j) GNEISS_UNROLL
        for (unsigned v = 0; v < 4; ++v)
            f(v / 2, row(v / 2), warp() % 2 * (Width / 2) + j * 8 + lane() % 4 * 2 + v % 2, of[j][v]);
    }
    __device__ static void clear(sums& to) {
        GNEISS_UNROLL
        for (auto& tile : to) GNEISS_UNROLL
        for (float& x : tile) x = 0;
    }
    __device__ void put_weight(unsigned r, unsigned c, float x) const { weights[r * weight_stride + c] = narrow<T>(x); }
    [[nodiscard]] __device__ float own_value(unsigned r, unsigned c) const { return widen(own[r * stride + c]); }

    /// Combines by f the values of the four lanes and two warps that share rows: parts[0] and parts[1] hold the results
    /// after the next barrier.
    template <class F>
    __device__ static void share(float (&parts)[2][size], const float (&mine)[2], F&& f) {
        GNEISS_UNROLL
        for (unsigned half = 0; half < 2; ++half) {
            float x = mine[half];
            for (int apart = 2; apart > 0; apart /= 2) x = f(x, __shfl_xor_sync(whole_warp, x, apart));
            if (lane() % 4 == 0) parts[warp() % 2][row(half)] = x;
        }
    }

    static constexpr std::uint32_t no_row = 0xffffffffU;

private:
    [[nodiscard]] __device__ static unsigned warp() { return threadIdx.x / warp_lanes; }
    [[nodiscard]] __device__ static unsigned lane() { return threadIdx.x % warp_lanes; }
};

struct add_two {
    __device__ float operator()(float a, float b) const { return a + b; }
};
struct larger_of_two {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

} // namespace gneiss::cuda::detail
