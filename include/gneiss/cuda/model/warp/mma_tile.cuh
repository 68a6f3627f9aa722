// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/float16.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>

// Products of small tiles in shared memory by one warp: on tensor cores or, without them, by plain loops over the same
// tiles.
namespace gneiss::cuda::detail {

/// c [16, 8] += a [16, depth] · b [8, depth]ᵀ, both stored along `depth`. Lane l holds c(l / 4, 2 (l % 4)), the value
/// to its right, and both values eight rows below.
///
/// Float operands are split into two parts of 11 bits, and three products are added, so the error is that of float sums
/// plus 2⁻²¹ of a product. All lanes of the warp call.
template <class T>
struct mma_tile {
    static constexpr unsigned rows = 16, columns = 8;
    static constexpr unsigned depth = sizeof(T) == 4 ? 8 : 16;
    using sums = float[4];

#if defined(__CUDA_ARCH__)
    /// Rows l / 4 and l / 4 + 8 of a tile, or row l / 4 of b: the part of an operand that lane l needs.
    template <unsigned Words>
    struct fragment {
        std::uint32_t large[Words], small[Words];
    };
    using a_fragment = fragment<4>;
    using b_fragment = fragment<2>;

    [[nodiscard]] __device__ static a_fragment load_a(const T* tile, unsigned stride) {
        a_fragment a;
        const T* const at = tile + (threadIdx.x % 32 / 4) * stride + first();
        set(a, 0, at), set(a, 1, at + 8 * stride), set(a, 2, at + depth / 2), set(a, 3, at + 8 * stride + depth / 2);
        return a;
    }
    [[nodiscard]] __device__ static b_fragment load_b(const T* tile, unsigned stride) {
        b_fragment b;
        const T* const at = tile + (threadIdx.x % 32 / 4) * stride + first();
        set(b, 0, at), set(b, 1, at + depth / 2);
        return b;
    }
    /// Loads from a tile with `depth` rows, `stride` apart, and the columns of b adjacent.
    [[nodiscard]] __device__ static b_fragment load_b_across(const T* tile, unsigned stride) {
        b_fragment b;
        const T* const at = tile + first() * stride + threadIdx.x % 32 / 4;
        set(b, 0, at, stride), set(b, 1, at + depth / 2 * stride, stride);
        return b;
    }
    __device__ static void multiply_add(sums& c, const a_fragment& a, const b_fragment& b) {
        if constexpr (sizeof(T) == 4) {
            product(c, a.small, b.large);
            product(c, a.large, b.small);
        }
        product(c, a.large, b.large);
    }

private:
    [[nodiscard]] __device__ static unsigned first() { return threadIdx.x % 4 * (4 / sizeof(T)); }
    /// Sets a word from the values at `at` and, for two values, `apart` after it.
    template <class F>
    __device__ static void set(F& to, unsigned word, const T* at, unsigned apart) {
        if constexpr (sizeof(T) == 4)
            set(to, word, at);
        else
            to.large[word] = static_cast<std::uint32_t>(static_cast<std::uint16_t>(at[0])) |
                static_cast<std::uint32_t>(static_cast<std::uint16_t>(at[apart])) << 16;
    }
    template <class F>
    __device__ static void set(F& to, unsigned word, const T* at) {
        if constexpr (sizeof(T) == 4) {
            to.large[word] = rounded(*at);
            to.small[word] = rounded(*at - __uint_as_float(to.large[word]));
        } else {
            to.large[word] = *reinterpret_cast<const std::uint32_t*>(at);
        }
    }
    [[nodiscard]] __device__ static std::uint32_t rounded(float x) {
        std::uint32_t bits;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
        return bits;
    }
    __device__ static void product(sums& c, const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
        if constexpr (sizeof(T) == 4)
            asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
                "%1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        else
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                "{%0, %1, %2, %3};"
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#else
    struct a_fragment {
        const T* tile;
        unsigned stride, step; ///< from row to row, and along the depth
    };
    using b_fragment = a_fragment;

    [[nodiscard]] __device__ static a_fragment load_a(const T* tile, unsigned stride) { return {tile, stride, 1}; }
    [[nodiscard]] __device__ static b_fragment load_b(const T* tile, unsigned stride) { return {tile, stride, 1}; }
    [[nodiscard]] __device__ static b_fragment load_b_across(const T* tile, unsigned stride) {
        return {tile, 1, stride};
    }
    __device__ static void multiply_add(sums& c, const a_fragment& a, const b_fragment& b) {
        const unsigned lane = threadIdx.x % 32;
        for (unsigned i = 0; i < 4; ++i)
            for (unsigned k = 0; k < depth; ++k)
                c[i] += widen(a.tile[(lane / 4 + i / 2 * 8) * a.stride + k]) *
                    widen(b.tile[(lane % 4 * 2 + i % 2) * b.stride + k * b.step]);
    }
#endif
};

} // namespace gneiss::cuda::detail
