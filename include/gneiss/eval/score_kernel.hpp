// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/eval/concepts.hpp>

namespace gneiss {

/// Score kernel by a register-tiled matrix product with a fixed summation order: the score of a pair depends only on
/// its two rows, not on their position in a block or the block's size.
///
/// Each element is Σₖ over ascending k in one accumulator, and every tile is padded with zeros to the full register
/// tile, so remainders take the same path. General matrix products (Eigen, BLAS) sum remainder rows in a different
/// order; equal rows then differ in the last bit, and ties would depend on node ids. Distances are summed from
/// differences, without the cancellation of ‖q‖² + ‖x‖² − 2⟨q, x⟩. Speed: about that of Eigen's product
/// (bench/eval/ranking.cpp).
/// Cost: 2 · queries · candidates · dim floating-point operations, without allocation. Does not throw: a NaN in a row
/// gives NaN scores. Stateless and thread-safe. Models `score_kernel`.
class fixed_order_kernel {
#if defined(__AVX512F__) && !defined(__clang__) // clang would split these vectors in two and spill
    static constexpr std::size_t lanes = 16, tile_queries = 12;
#elif defined(__AVX__)
    static constexpr std::size_t lanes = 8, tile_queries = 6;
#else
    static constexpr std::size_t lanes = 4, tile_queries = 6;
#endif
    static constexpr std::size_t vectors = 2;                       // per row of a tile
    static constexpr std::size_t tile_candidates = vectors * lanes; // the accumulators fill the register file

    typedef float vector __attribute__((vector_size(lanes * sizeof(float)), aligned(alignof(float)), may_alias));

public:
    /// Number of floats of `rows` packed candidate rows.
    [[nodiscard]] static constexpr std::size_t packed_floats(std::size_t rows, std::size_t dim) noexcept {
        return round_up(rows, tile_candidates) * dim;
    }

    /// Packs candidates [n, dim] for `scores`: panels of a tile's width, element k of all rows of a panel together.
    /// Precondition: `packed` has packed_floats(n, dim) floats. O(n · dim).
    static void pack(matrix_view<const float> rows, std::span<float> packed) noexcept {
        pack_panels<tile_candidates>(rows, packed);
    }

    /// Number of scratch floats that `scores` needs for `queries` rows.
    [[nodiscard]] static constexpr std::size_t scratch_floats(std::size_t queries, std::size_t dim) noexcept {
        return round_up(queries, tile_queries) * dim;
    }

    /// Writes out [m, n] for queries [m, dim] and n packed candidates; `scratch` has `scratch_floats(m, dim)` floats.
    static void scores(similarity compare, matrix_view<const float> queries, std::span<const float> packed,
        matrix_view<float> out, std::span<float> scratch) noexcept {
        pack_panels<tile_queries>(queries, scratch);
        const auto run = compare == similarity::inner_product ? run_tiles<similarity::inner_product>
                                                              : run_tiles<similarity::negative_distance>;
        run(scratch.data(), packed.data(), queries.columns(), out);
    }

private:
    template <similarity Compare>
    static void run_tiles(
        const float* queries, const float* candidates, std::size_t dim, matrix_view<float> out) noexcept {
        for (std::size_t c = 0; c < out.columns(); c += tile_candidates)
            for (std::size_t q = 0; q < out.rows(); q += tile_queries) {
                const std::size_t rows = std::min(tile_queries, out.rows() - q);
                const std::size_t columns = std::min(tile_candidates, out.columns() - c);
                const float* left = queries + q * dim;
                const float* right = candidates + c * dim;
                if (rows == tile_queries && columns == tile_candidates) {
                    tile<Compare>(left, right, dim, &out(q, c), out.stride());
                    continue;
                }
                float whole[tile_queries * tile_candidates];
                tile<Compare>(left, right, dim, whole, tile_candidates);
                for (std::size_t i = 0; i < rows; ++i)
                    std::copy_n(whole + i * tile_candidates, columns, &out(q + i, c));
            }
    }

    template <std::size_t Width>
    static void pack_panels(matrix_view<const float> rows, std::span<float> packed) noexcept {
        const std::size_t dim = rows.columns();
        for (std::size_t first = 0; first < rows.rows(); first += Width) {
            float* panel = packed.data() + first * dim;
            const std::size_t count = std::min(Width, rows.rows() - first);
            if (count < Width) std::fill_n(panel, Width * dim, 0.0F);
            for (std::size_t i = 0; i < count; ++i) {
                const float* row = rows[first + i].data();
                for (std::size_t k = 0; k < dim; ++k) panel[k * Width + i] = row[k];
            }
        }
    }

    // Not inlined, so that all callers run the same instructions.
    template <similarity Compare>
    [[gnu::noinline]] static void tile(
        const float* left, const float* right, std::size_t dim, float* out, std::size_t stride) noexcept {
        vector sum[tile_queries][vectors] = {};
        for (std::size_t k = 0; k < dim; ++k, left += tile_queries, right += tile_candidates) {
            vector x[vectors];
            for (std::size_t v = 0; v < vectors; ++v) x[v] = *reinterpret_cast<const vector*>(right + v * lanes);
#pragma GCC unroll 12
            for (std::size_t i = 0; i < tile_queries; ++i)
#pragma GCC unroll 2
                for (std::size_t v = 0; v < vectors; ++v) {
                    if constexpr (Compare == similarity::inner_product) {
                        sum[i][v] += left[i] * x[v];
                    } else {
                        const vector difference = left[i] - x[v];
                        sum[i][v] -= difference * difference;
                    }
                }
        }
#pragma GCC unroll 12
        for (std::size_t i = 0; i < tile_queries; ++i)
#pragma GCC unroll 2
            for (std::size_t v = 0; v < vectors; ++v)
                *reinterpret_cast<vector*>(out + i * stride + v * lanes) = sum[i][v];
    }
};

static_assert(score_kernel<fixed_order_kernel>);

} // namespace gneiss
