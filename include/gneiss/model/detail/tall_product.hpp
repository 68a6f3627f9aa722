// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>

// Products with the shapes of layers, of a matrix with many rows and one with few: sums of a small tile stay in
// registers while the inner dimension passes. Each element is summed over that dimension in order, at any place in the
// matrix.
namespace gneiss::detail {

/// Shape of the tiles. Sums, a row of the right operand and one number of the left fill the registers.
///
/// 10,000 × 128 times 128 × 128 by AVX-512 in GFLOP/s: 6 rows of 4 registers 157, 12 of 2 146, 8 of 3 134, Eigen 124.
struct product_tile {
#if defined(__CUDA_ARCH__) // nvcc also reads this for the device, without calling it
    using block = float;
#elif defined(__AVX512F__) && !defined(__clang__) // clang would split these vectors in two and spill
    using block = float __attribute__((vector_size(64)));
#elif defined(__AVX__)
    using block = float __attribute__((vector_size(32)));
#else
    using block = float __attribute__((vector_size(16)));
#endif
    static constexpr std::size_t lanes = sizeof(block) / sizeof(float), rows = 6;
    static constexpr std::size_t blocks = lanes == 16 ? 4 : 2, columns = blocks * lanes;
};

/// Copies `count` ≤ a block's floats without a call.
inline void copy_block(const float* from, float* to, std::size_t count) noexcept {
    if (count == product_tile::lanes) return void(std::memcpy(to, from, sizeof(product_tile::block)));
#pragma GCC unroll 4
    for (std::size_t some = product_tile::lanes / 2; some != 0; some /= 2) {
        if ((count & some) == 0) continue;
        std::memcpy(to, from, some * sizeof(float));
        from += some;
        to += some;
    }
}

/// Computes out [Rows, columns] = (accumulate ? out : 0) + a b, for more than Blocks − 1 blocks and at most Blocks; a
/// [Rows, depth], b [depth, Blocks · width]. a_stride is the distance of consecutive rows of `a`; if Turned, of aᵀ,
/// which is passed as `a`.
template <bool Turned, std::size_t Rows, std::size_t Blocks>
inline void multiply_tile(const float* a, std::size_t a_stride, const float* b, std::size_t b_stride, std::size_t depth,
    bool accumulate, float* out, std::size_t out_stride, std::size_t columns) noexcept {
    using block = product_tile::block;
    constexpr std::size_t width = product_tile::lanes;
    const std::size_t last = columns - (Blocks - 1) * width; // width of the last block: 1 … width
    block sum[Rows][Blocks] = {};
    if (accumulate) {
#pragma GCC unroll 6
        for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
            for (std::size_t j = 0; j < Blocks; ++j) {
                block x{}; // the sums themselves have no address
                copy_block(
                    out + r * out_stride + j * width, reinterpret_cast<float*>(&x), j + 1 < Blocks ? width : last);
                sum[r][j] = x;
            }
    }
    for (std::size_t p = 0; p < depth; ++p) {
        block right[Blocks];
#pragma GCC unroll 4
        for (std::size_t j = 0; j < Blocks; ++j) std::memcpy(&right[j], b + p * b_stride + j * width, sizeof(block));
#pragma GCC unroll 6
        for (std::size_t r = 0; r < Rows; ++r) {
            const float left = Turned ? a[p * a_stride + r] : a[r * a_stride + p];
#pragma GCC unroll 4
            for (std::size_t j = 0; j < Blocks; ++j) sum[r][j] += left * right[j];
        }
    }
#pragma GCC unroll 6
    for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 4
        for (std::size_t j = 0; j < Blocks; ++j) {
            const block x = sum[r][j];
            copy_block(
                reinterpret_cast<const float*>(&x), out + r * out_stride + j * width, j + 1 < Blocks ? width : last);
        }
}

/// The same for any number of rows.
template <bool Turned, std::size_t Blocks>
[[gnu::noinline]] void multiply_panel(const float* a, std::size_t a_stride, std::size_t rows, const float* b,
    std::size_t b_stride, std::size_t depth, bool accumulate, float* out, std::size_t out_stride,
    std::size_t columns) noexcept {
    const std::size_t step = Turned ? 1 : a_stride;
    std::size_t r = 0;
    for (; r + product_tile::rows <= rows; r += product_tile::rows)
        multiply_tile<Turned, product_tile::rows, Blocks>(
            a + r * step, a_stride, b, b_stride, depth, accumulate, out + r * out_stride, out_stride, columns);
    for (; r < rows; ++r)
        multiply_tile<Turned, 1, Blocks>(
            a + r * step, a_stride, b, b_stride, depth, accumulate, out + r * out_stride, out_stride, columns);
}

/// The same for any number of columns up to a tile's, with the fewest registers that hold them.
template <bool Turned>
void multiply_panel(const float* a, std::size_t a_stride, std::size_t rows, const float* b, std::size_t b_stride,
    std::size_t depth, bool accumulate, float* out, std::size_t out_stride, std::size_t columns) noexcept {
    const auto by = [&]<std::size_t Blocks>() {
        multiply_panel<Turned, Blocks>(a, a_stride, rows, b, b_stride, depth, accumulate, out, out_stride, columns);
    };
    switch (ceil_div(columns, product_tile::lanes)) {
    case 1: return by.template operator()<1>();
    case 2: return by.template operator()<2>();
    case 3: return by.template operator()<3>();
    default: return by.template operator()<4>();
    }
}

/// A small matrix [depth, columns], or its transpose, in panels of a tile's columns, padded with zeros.
class packed_panels {
public:
    /// Returns the depth up to which a matrix of `columns` columns is packed at once: panels pass through the
    /// first-level cache, and all take at most a mebibyte, except for more than 16,384 columns.
    [[nodiscard]] static constexpr std::size_t depth_for(std::size_t columns) noexcept {
        return std::clamp<std::size_t>(
            (std::size_t{1} << 18) / round_up(std::max<std::size_t>(columns, 1), product_tile::columns), 16, 256);
    }

    packed_panels(matrix_view<const float> w, bool turned)
        : depth_(turned ? w.columns() : w.rows()),
          columns_(turned ? w.rows() : w.columns()),
          memory_(depth_ * round_up(columns_, product_tile::columns)) {
        for (std::size_t first = 0; first < columns_; first += product_tile::columns) {
            const std::size_t count = std::min(product_tile::columns, columns_ - first);
            float* to = memory_.data() + first * depth_;
            for (std::size_t p = 0; p < depth_; ++p, to += product_tile::columns) {
                for (std::size_t c = 0; c < count; ++c) to[c] = turned ? w(first + c, p) : w(p, first + c);
                std::fill_n(to + count, product_tile::columns - count, 0.0F);
            }
        }
    }

    /// Computes out = (accumulate ? out : 0) + a · this.
    void multiply(matrix_view<const float> a, bool accumulate, matrix_view<float> out) const noexcept {
        for (std::size_t first = 0; first < columns_; first += product_tile::columns)
            multiply_panel<false>(a.data(), a.stride(), a.rows(), memory_.data() + first * depth_,
                product_tile::columns, depth_, accumulate, out.data() + first, out.stride(),
                std::min(product_tile::columns, columns_ - first));
    }

private:
    std::size_t depth_, columns_;
    aligned_buffer<float, 64> memory_;
};

/// Computes out [k, n] += aᵀ g, where a [m, k] and g [m, n], any n.
inline void add_turned(matrix_view<const float> a, matrix_view<const float> g, matrix_view<float> out) noexcept {
    constexpr std::size_t depth =
        64; // rows of `a` and of a panel of g that stay in the first-level cache over all tiles
    for (std::size_t i = 0; i < a.rows(); i += depth) {
        const std::size_t count = std::min(depth, a.rows() - i);
        for (std::size_t c = 0, columns; c < g.columns(); c += columns) {
            columns = std::min(product_tile::columns, g.columns() - c);
            const float* right = g.data() + i * g.stride() + c;
            std::size_t stride = g.stride();
            float whole[depth * product_tile::lanes];
            if (columns > product_tile::lanes) {
                columns -= columns % product_tile::lanes;
            } else if (columns < product_tile::lanes) { // registers are loaded whole
                std::fill_n(whole, depth * product_tile::lanes, 0.0F);
                for (std::size_t p = 0; p < count; ++p)
                    copy_block(right + p * stride, whole + p * product_tile::lanes, columns);
                right = whole;
                stride = product_tile::lanes;
            }
            multiply_panel<true>(a.data() + i * a.stride(), a.stride(), a.columns(), right, stride, count, true,
                out.data() + c, out.stride(), columns);
        }
    }
}

} // namespace gneiss::detail
