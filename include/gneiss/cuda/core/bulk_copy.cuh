// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>

namespace gneiss::cuda::detail {

/// Asynchronous copies of rows from global memory into `Slots` places of shared memory, by a warp, while it computes:
///
///     bulk_row_copy<16, 512> copies(memory);       // memory: 16-byte aligned, a warp's own
///     for (slot …) copies.begin(slot, row, bytes); // or skip(): every slot once
///     for (place …) {
///         copies.wait(slot);                       // in the order of begin and skip
///         … read at(slot) …
///         copies.begin(slot, next, bytes);         // or skip(): once for each wait, for the same slot
///     }
///
/// All lanes make all calls. Rows start at multiples of 16 bytes, and `bytes` is a multiple of 16, at most Bytes. A
/// copy is one instruction of one lane on sm_90 (PTX ISA, "cp.async.bulk", completed on an mbarrier), 16 bytes per lane
/// on sm_80 ("cp.async", in groups), and synchronous elsewhere, including the emulator.
template <unsigned Slots, unsigned Bytes>
class bulk_row_copy {
    static_assert(Slots <= 32 && Bytes % 16 == 0);

public:
    struct alignas(16) memory {
        unsigned char slot[Slots][Bytes];
        std::uint64_t arrived[Slots];
    };

    __device__ explicit bulk_row_copy(memory& in) : memory_(in) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (lane() < Slots)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared(&memory_.arrived[lane()])) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
        __syncwarp();
    }

    [[nodiscard]] __device__ const unsigned char* at(unsigned slot) const { return memory_.slot[slot]; }

    __device__ void begin(unsigned slot, const void* row, unsigned bytes) {
        __syncwarp(); // all lanes have read the slot
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        if (lane() != 0) return;
        const std::uint32_t arrived = shared(&memory_.arrived[slot]);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(arrived), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared(memory_.slot[slot])),
            "l"(__cvta_generic_to_global(row)), "r"(bytes), "r"(arrived)
            : "memory");
#elif defined(__CUDA_ARCH__)
        for (unsigned byte = lane() * 16; byte < bytes; byte += warp_lanes * 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared(memory_.slot[slot] + byte)),
                "l"(__cvta_generic_to_global(static_cast<const unsigned char*>(row) + byte))
                : "memory");
        end_group();
#else
        for (unsigned byte = lane() * 16; byte < bytes; byte += warp_lanes * 16)
            *reinterpret_cast<uint4*>(memory_.slot[slot] + byte) =
                __ldg(reinterpret_cast<const uint4*>(static_cast<const unsigned char*>(row) + byte));
#endif
    }
    /// Skips a slot without a copy.
    __device__ void skip() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
        end_group();
#endif
    }
    /// Waits until the row of `slot` is available to all lanes.
    __device__ void wait(unsigned slot) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
        std::uint32_t done = 0;
        while (done == 0)
            asm volatile("{\n .reg .pred done;\n mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n selp.u32 "
                         "%0, 1, 0, done;\n}"
                : "=r"(done)
                : "r"(shared(&memory_.arrived[slot])), "r"(phases_ >> slot & 1U)
                : "memory");
        phases_ ^= 1U << slot;
#elif defined(__CUDA_ARCH__)
        asm volatile("cp.async.wait_group %0;" ::"n"(Slots - 1) : "memory");
        __syncwarp();
#else
        static_cast<void>(slot);
        __syncwarp();
#endif
    }

private:
    [[nodiscard]] __device__ static unsigned lane() { return threadIdx.x % warp_lanes; }
#if defined(__CUDA_ARCH__)
    [[nodiscard]] __device__ static std::uint32_t shared(const void* at) {
        return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
    }
    __device__ static void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
#endif

    memory& memory_;
    std::uint32_t phases_ = 0; ///< phases of the barriers, a bit per slot
};

} // namespace gneiss::cuda::detail
