// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/model/device/dropout.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/cuda/model/warp/mma_tile.cuh>
#include <gneiss/model/activation.hpp>

namespace gneiss::cuda {

/// Epilogue of a product whose sums are in registers: out = dropped(then((accumulate ? out : 0) + product + bias)).
struct epilogue {
    bool accumulate = false;            ///< adds to `out` instead of replacing it
    const float* bias = nullptr;        ///< [columns], or null: none
    activation then = activation::none; ///< activation of the result
    dropout_mask dropout{};             ///< by row and column of the result
};

namespace detail {

/// Writes one element of a result; `key` is that of its row's name in the dropout mask.
template <storage T>
__device__ inline void write_finished(
    const epilogue& then, T* to, float sum, std::uint32_t column, const random_key& key) {
    if (then.accumulate) sum += widen(reread(to));
    if (then.bias != nullptr) sum += read(then.bias + column);
    sum = activated(then.then, sum);
    write(to, narrow<T>(then.dropout.drops() ? sum * then.dropout.scale_of(key, column) : sum));
}

/// Tiling of a product: a block computes `rows` × `columns` of the result, `depth` of the sums at a time; each of its 4
/// × 2 warps computes a quarter by a half.
struct product_blocks {
    static constexpr unsigned threads = 256, rows = 128, columns = 64, depth = 32;
    static constexpr unsigned warp_rows = rows / 4, warp_columns = columns / 2;
    /// Elements from one row of a tile to the next: rows start at multiples of 16 bytes, and eight rows start in
    /// different banks.
    template <class S>
    static constexpr unsigned stride = depth + 16 / sizeof(S);
};

/// Positions of an operand's rows in memory: adjacent ones.
struct rows_in_order {
    std::uint32_t first = 0;

    [[nodiscard]] __device__ std::uint32_t operator[](std::uint32_t row) const { return first + row; }
};
/// Positions of an operand's rows in a table.
struct rows_by_id {
    const std::uint32_t* ids;

    [[nodiscard]] __device__ std::uint32_t operator[](std::uint32_t row) const { return __ldg(ids + row); }
};
/// Returns the positions of a range's rows; `ById`: the range has ids.
template <bool ById>
[[nodiscard]] __device__ auto places_of(const row_range& rows) {
    if constexpr (ById)
        return rows_by_id{rows.ids + first_row(rows.first)};
    else
        return rows_in_order{first_row(rows.first)};
}

/// An operand of a product, read by a block in tiles [Rows, depth]. Its rows in memory are those of the tile, or, if
/// `Across`, run along the depth.
template <table_value T, bool Across, class Places = rows_in_order>
struct operand {
    rows_view<const T> in;
    std::uint32_t rows, depth; ///< zeros beyond these
    Places places;             ///< of rows in memory
    bool aligned;

    /// Reads four adjacent values in memory, starting at row `row` and depth `at` of the operand.
    __device__ void read_four(std::uint32_t row, std::uint32_t at, float (&x)[4]) const {
        const std::uint32_t line = Across ? at : row, first = Across ? row : at;
        const std::uint32_t lines = Across ? depth : rows, columns = Across ? rows : depth;
        GNEISS_UNROLL
        for (float& value : x) value = 0;
        if (line >= lines) return;
        const T* const from = in[places[line]] + first;
        if (aligned && first + 4 <= columns) {
            if constexpr (std::is_same_v<T, float>) {
                const float4 four = __ldg(reinterpret_cast<const float4*>(from));
                x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
            } else {
                const ushort4 four = __ldg(reinterpret_cast<const ushort4*>(from));
                x[0] = widen(static_cast<T>(four.x)), x[1] = widen(static_cast<T>(four.y));
                x[2] = widen(static_cast<T>(four.z)), x[3] = widen(static_cast<T>(four.w));
            }
            return;
        }
        GNEISS_UNROLL
        for (unsigned k = 0; k < 4; ++k)
            if (first + k < columns) x[k] = widen(read(from + k));
    }
};

/// A tile in transit from memory to shared memory, in the registers of a block's threads.
template <class S, unsigned Rows, bool Across>
class tile_in_flight {
    static constexpr unsigned fours = Rows * product_blocks::depth / 4 / product_blocks::threads;

public:
    template <table_value T, class Places>
    __device__ void load(const operand<T, Across, Places>& from, std::uint32_t row, std::uint32_t depth) {
        GNEISS_UNROLL
        for (unsigned i = 0; i < fours; ++i) from.read_four(row + row_of(i), depth + depth_of(i), value_[i]);
    }
    __device__ void store(S* tile) const {
        GNEISS_UNROLL
        for (unsigned i = 0; i < fours; ++i) GNEISS_UNROLL
        for (unsigned k = 0; k < 4; ++k)
            tile[(row_of(i) + (Across ? k : 0)) * product_blocks::stride<S> + depth_of(i) + (Across ? 0 : k)] =
                narrow<S>(value_[i][k]);
    }

private:
    [[nodiscard]] __device__ static unsigned row_of(unsigned i) {
        const unsigned at = i * product_blocks::threads + threadIdx.x;
        return Across ? at % (Rows / 4) * 4 : at / (product_blocks::depth / 4);
    }
    [[nodiscard]] __device__ static unsigned depth_of(unsigned i) {
        const unsigned at = i * product_blocks::threads + threadIdx.x;
        return Across ? at / (Rows / 4) : at % (product_blocks::depth / 4) * 4;
    }

    float value_[fours][4];
};

/// A block's tile of a product, in the registers of its warps.
template <class S>
class product_tile {
    using mma = mma_tile<S>;
    static constexpr unsigned down = product_blocks::warp_rows / mma::rows,
                              across = product_blocks::warp_columns / mma::columns;

public:
    /// Sums over depths [begin, end): rows of the first operand from `row` on, of the second from `column` on.
    template <table_value A, bool AAcross, class APlaces, storage B, bool BAcross>
    __device__ product_tile(const operand<A, AAcross, APlaces>& a, const operand<B, BAcross>& b, std::uint32_t row,
        std::uint32_t column, std::uint32_t begin, std::uint32_t end) {
        constexpr unsigned stride = product_blocks::stride<S>;
        alignas(16) __shared__ S a_tile[product_blocks::rows * stride];
        alignas(16) __shared__ S b_tile[product_blocks::columns * stride];
        tile_in_flight<S, product_blocks::rows, AAcross> next_a;
        tile_in_flight<S, product_blocks::columns, BAcross> next_b;
        GNEISS_UNROLL
        for (unsigned i = 0; i < down; ++i) GNEISS_UNROLL
        for (unsigned j = 0; j < across; ++j) GNEISS_UNROLL
        for (float& sum : sums_[i][j]) sum = 0;
        if (begin < end) {
            next_a.load(a, row, begin);
            next_b.load(b, column, begin);
        }
        for (std::uint32_t at = begin; at < end; at += product_blocks::depth) {
            __syncthreads(); // the previous tiles are no longer read
            next_a.store(a_tile);
            next_b.store(b_tile);
            __syncthreads();
            if (at + product_blocks::depth < end) {
                next_a.load(a, row, at + product_blocks::depth);
                next_b.load(b, column, at + product_blocks::depth);
            }
            GNEISS_NO_UNROLL
            for (unsigned k = 0; k < product_blocks::depth; k += mma::depth) {
                typename mma::a_fragment of_a[down];
                GNEISS_UNROLL
                for (unsigned i = 0; i < down; ++i)
                    of_a[i] = mma::load_a(a_tile + (first_row() + i * mma::rows) * stride + k, stride);
                GNEISS_UNROLL
                for (unsigned j = 0; j < across; ++j) {
                    const typename mma::b_fragment of_b =
                        mma::load_b(b_tile + (first_column() + j * mma::columns) * stride + k, stride);
                    GNEISS_UNROLL
                    for (unsigned i = 0; i < down; ++i) mma::multiply_add(sums_[i][j], of_a[i], of_b);
                }
            }
        }
    }

    /// Calls to(row, column, left, right) for each two adjacent values of this lane; rows and columns within the tile.
    template <class F>
    __device__ void for_each_pair(F&& to) const {
        const unsigned lane = threadIdx.x % warp_lanes;
        GNEISS_UNROLL
        for (unsigned i = 0; i < down; ++i) GNEISS_UNROLL
        for (unsigned half = 0; half < 2; ++half) GNEISS_UNROLL
        for (unsigned j = 0; j < across; ++j)
            to(first_row() + i * mma::rows + half * 8 + lane / 4, first_column() + j * mma::columns + lane % 4 * 2,
                sums_[i][j][2 * half], sums_[i][j][2 * half + 1]);
    }

private:
    [[nodiscard]] __device__ static unsigned first_row() {
        return threadIdx.x / warp_lanes / 2 * product_blocks::warp_rows;
    }
    [[nodiscard]] __device__ static unsigned first_column() {
        return threadIdx.x / warp_lanes % 2 * product_blocks::warp_columns;
    }

    typename mma::sums sums_[down][across];
};

} // namespace detail

} // namespace gneiss::cuda
