// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/float16.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>

// Products of small tiles in shared memory by one warp: on tensor cores or, without them, by plain loops over the same
// tiles.
namespace gneiss::cuda::detail {

/// Returns `x` rounded to 11 significant bits, ties away from zero: what tensor cores multiply (TF32).
[[nodiscard]] GNEISS_HD inline std::uint32_t tf32_bits(float x) noexcept {
#if defined(__CUDA_ARCH__)
    std::uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
#else
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    return (bits & 0x7f800000U) == 0x7f800000U ? bits : (bits + 0x1000U) & 0xffffe000U;
#endif
}

/// A float as the sum of two that tensor cores multiply.
struct tf32_parts {
    std::uint32_t large = 0, small = 0; ///< bits of both

    /// Splits `x`. What is not finite, or rounds to infinity, is the small part alone: it meets the other operand's
    /// large part only, so that its products with finite numbers other than 0 are what floats make of them, where inf −
    /// inf or inf · 0 would make NaN. Its product with another of its kind is NaN.
    [[nodiscard]] GNEISS_HD static tf32_parts of(float x) noexcept {
        std::uint32_t large = tf32_bits(x);
        if ((large & 0x7f800000U) == 0x7f800000U) large = 0; // one select: products have no register to spare
        return {large, tf32_bits(x - __builtin_bit_cast(float, large))};
    }
};

/// c [16, 8] += a [16, depth] · b [8, depth]ᵀ, both stored along `depth`. Lane l holds c(l / 4, 2 (l % 4)), the value
/// to its right, and both values eight rows below.
///
/// Float operands are split into two parts of 11 bits, and three products are added, so the error is that of float sums
/// plus 2⁻²¹ of a product. All lanes of the warp call. Under the emulator both parts are rounded, and sums cut off, as
/// by tensor cores.
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
            const tf32_parts parts = tf32_parts::of(*at);
            to.large[word] = parts.large;
            to.small[word] = parts.small;
        } else {
            to.large[word] = *reinterpret_cast<const std::uint32_t*>(at);
        }
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
    /// Two rows of an operand, those that a lane's sums need, in the parts that tensor cores multiply.
    struct fragment {
        float large[2][depth], small[2][depth];

        void set(unsigned row, unsigned k, const T& x) {
            if constexpr (sizeof(T) == 4) {
                const tf32_parts parts = tf32_parts::of(x);
                large[row][k] = __builtin_bit_cast(float, parts.large);
                small[row][k] = __builtin_bit_cast(float, parts.small);
            } else {
                large[row][k] = widen(x);
            }
        }
    };
    using a_fragment = fragment;
    using b_fragment = fragment;

    [[nodiscard]] __device__ static a_fragment load_a(const T* tile, unsigned stride) {
        return load(tile + threadIdx.x % 32 / 4 * stride, 8 * stride, 1);
    }
    [[nodiscard]] __device__ static b_fragment load_b(const T* tile, unsigned stride) {
        return load(tile + threadIdx.x % 4 * 2 * stride, stride, 1);
    }
    [[nodiscard]] __device__ static b_fragment load_b_across(const T* tile, unsigned stride) {
        return load(tile + threadIdx.x % 4 * 2, 1, stride);
    }
    __device__ static void multiply_add(sums& c, const a_fragment& a, const b_fragment& b) {
        if constexpr (sizeof(T) == 4) {
            product(c, a.small, b.large);
            product(c, a.large, b.small);
        }
        product(c, a.large, b.large);
    }

private:
    [[nodiscard]] static fragment load(const T* first, unsigned second, unsigned step) {
        fragment of;
        for (unsigned row = 0; row < 2; ++row)
            for (unsigned k = 0; k < depth; ++k) of.set(row, k, first[row * second + k * step]);
        return of;
    }
    /// Sums are exact, and cut off after each product of tiles, as by the hardware.
    static void product(sums& c, const float (&a)[2][depth], const float (&b)[2][depth]) {
        for (unsigned i = 0; i < 4; ++i) {
            auto sum = static_cast<double>(c[i]);
            for (unsigned k = 0; k < depth; ++k)
                sum += static_cast<double>(a[i / 2][k]) * static_cast<double>(b[i % 2][k]);
            c[i] = cut_off(sum);
        }
    }
    /// Returns the float next to `x` on the side of zero.
    [[nodiscard]] static float cut_off(double x) noexcept {
        const auto nearest = static_cast<float>(x);
        if (!(__builtin_fabs(static_cast<double>(nearest)) > __builtin_fabs(x))) return nearest;
        return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, nearest) - 1);
    }
#endif
};

} // namespace gneiss::cuda::detail
