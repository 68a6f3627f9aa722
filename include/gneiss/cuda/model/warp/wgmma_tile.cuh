// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/float16.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>

// Products of tiles in shared memory by the four warps of a warpgroup, asynchronously, on the tensor cores of sm_90a
// ("wgmma"); elsewhere by plain loops over the same tiles.
namespace gneiss::cuda::detail {

/// Position of element (row, depth) of an operand with `rows` rows, a multiple of 8: bricks of 8 rows × 8 depths, 128
/// bytes; the bricks of one depth are consecutive. PTX ISA, "Asynchronous warpgroup level matrix shared memory layout",
/// without swizzle.
[[nodiscard]] GNEISS_HD constexpr std::size_t brick_place(unsigned rows, unsigned row, unsigned depth) {
    return (std::size_t{depth / 8} * (rows / 8) + row / 8) * 64 + row % 8 * 8 + depth % 8;
}

/// PTX ISA, "wgmma.mma_async", matrix descriptor: the address in shared memory, and the bytes from one brick to the
/// next along the depth and along the rows, each a multiple of 16 below 2¹⁸; no base offset, no swizzle.
[[nodiscard]] GNEISS_HD constexpr std::uint64_t wgmma_descriptor(
    std::uint32_t address, std::uint32_t along_depth, std::uint32_t along_rows) {
    constexpr std::uint64_t mask = 0x3fff;
    return (address / 16 & mask) | (along_depth / 16 & mask) << 16 | (along_rows / 16 & mask) << 32;
}

/// c [64, 64] += a [64, 16] · b [64, 16]ᵀ, operands in bricks. Thread t of the 128 holds, as in a warp's `mma_tile`, of
/// row 16 (t / 32) + l / 4 and the row 8 below, l = t % 32, columns 8 j + 2 (l % 4) and the next: c[4 j], c[4 j + 1],
/// c[4 j + 2], c[4 j + 3].
struct wgmma_tile {
    static constexpr unsigned threads = 128, rows = 64, columns = 64, depth = 16;
    using sums = float[32];

    /// Makes this block's writes to shared memory visible to products; call before the barrier that follows the writes.
    __device__ static void publish() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    }
    /// Begins products into sums written otherwise. From here until all products are done, the compiler must not touch
    /// any of a thread's sums.
    template <unsigned Tiles>
    __device__ static void begin(sums (&all)[Tiles]) {
        hold(all);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
    }
    template <unsigned Tiles>
    __device__ static void finish(sums (&all)[Tiles]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#endif
        hold(all);
    }
    /// a and b start at a brick, in operands with a_rows and b_rows rows.
    __device__ static void multiply_add(
        sums& c, const bfloat16* a, unsigned a_rows, const bfloat16* b, unsigned b_rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        asm volatile("{\n .reg .pred add;\n setp.ne.b32 add, 1, 0;\n"
                     " wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                     "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
                     "%21, %22, %23, %24, %25, %26, "
                     "%27, %28, %29, %30, %31}, %32, %33, add, 1, 1, 0, 0;\n}"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
            "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
            "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
            "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
            : "l"(descriptor(a, a_rows)), "l"(descriptor(b, b_rows)));
#else
        for (unsigned i = 0; i < 32; ++i)
            for (unsigned k = 0; k < depth; ++k)
                c[i] += widen(a[brick_place(a_rows, row(i / 2 % 2), k)]) *
                    widen(b[brick_place(b_rows, column(i / 4) + i % 2, k)]);
#endif
    }

    [[nodiscard]] __device__ static unsigned row(unsigned half) {
        return threadIdx.x / warp_lanes * 16 + half * 8 + threadIdx.x % warp_lanes / 4;
    }
    [[nodiscard]] __device__ static unsigned column(unsigned j) { return j * 8 + threadIdx.x % 4 * 2; }

private:
    template <unsigned Tiles>
    __device__ static void hold([[maybe_unused]] sums (&all)[Tiles]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
        GNEISS_UNROLL
        for (sums& tile : all) GNEISS_UNROLL
        for (float& sum : tile) asm volatile("" : "+f"(sum)::"memory");
#endif
    }
#if defined(__CUDA_ARCH__)
    [[nodiscard]] __device__ static std::uint64_t descriptor(const bfloat16* at, unsigned operand_rows) {
        return wgmma_descriptor(static_cast<std::uint32_t>(__cvta_generic_to_shared(at)), operand_rows * 16, 128);
    }
#endif
};

} // namespace gneiss::cuda::detail
