// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The words that kernels are written in, and the only place that knows who reads them: nvcc, or (where GNEISS_SIMT is
/// defined) a host compiler and the SIMT emulator of the tests, so that the same source runs on a GPU and on a CPU.
///
/// A kernel is plain CUDA C++ 20 within these bounds:
///
///     template <class T>
///     __global__ void __launch_bounds__(256) scale(const T* in, T* out, const std::uint32_t* count, float factor) {
///         __shared__ float tile[256];                        // static shared memory: trivial types, no initializer
///         float* rows = gneiss::cuda::dynamic_shared<float>(); // the launch's shared_bytes, 16-byte aligned
///         const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
///         …
///         __syncthreads();
///     }
///     gneiss::cuda::launch(stream, scale<float>, grid, block, shared_bytes, in, out, count, 2.0F);
///
/// - Functions: `__global__` and `__device__` functions in namespace scope; what host and device share is
///   `GNEISS_HD constexpr` in a host header. No device lambdas, cooperative groups, textures or inline PTX: what needs
///   PTX goes into a small function of its own with a plain body for the emulator (`#if defined(__CUDA_ARCH__)` there).
/// - Words: threadIdx, blockIdx, blockDim, gridDim, warpSize; __syncthreads (_or, _and, _count), __syncwarp, __shfl_sync,
///   __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync, __ballot_sync, __any_sync, __all_sync, __match_any_sync,
///   __match_all_sync, __reduce_{add,min,max,and,or,xor}_sync, __activemask, __threadfence (_block, _system);
///   atomicAdd, Sub, Min, Max, And, Or, Xor, Exch, CAS, Inc; __popc, __ffs, __clz, __brev and their ll forms,
///   __umulhi, __umul64hi, __float_as_uint and its kin; the usual float functions.
/// - A mask names exactly the lanes that take part. Naming a lane that has exited, or that never existed in a last
///   partial warp, is an error in the emulator although hardware lets much of it pass; so is a __syncthreads that not
///   every thread of the block reaches.
/// - Read global memory by `__ldg(p)` (or __ldcs, __ldcg, __ldca) and write it by `__stwb(p, v)` (or __stcs, __stcg) where a
///   test is to count sectors and bytes: the emulator counts these, and these only.
/// - Vector types are those of CUDA (float4, uint4, …, make_float4); 16-bit floats are stored as gneiss's own types, not
///   as cuda_bf16.h's.
#if defined(GNEISS_SIMT)
#include <simt/emulator.hpp>
#else
#include <cuda_runtime.h>
#endif

/// In front of a loop that must be unrolled, so that arrays it indexes lie in registers; and of one that must not, where
/// registers are short.
#if defined(__CUDACC__)
#define GNEISS_UNROLL _Pragma("unroll")
#define GNEISS_NO_UNROLL _Pragma("unroll 1")
#else
#define GNEISS_UNROLL
#define GNEISS_NO_UNROLL
#endif

namespace gneiss::cuda {

#if defined(GNEISS_SIMT)
/// The dynamic shared memory of the block: as many bytes as its launch asked for, aligned to 16.
template <class T>
[[nodiscard]] T* dynamic_shared() noexcept {
    return reinterpret_cast<T*>(simt::dynamic_shared());
}
#elif defined(__CUDACC__)
template <class T>
[[nodiscard]] __device__ __forceinline__ T* dynamic_shared() noexcept {
    extern __shared__ uint4 gneiss_dynamic_shared[];
    return reinterpret_cast<T*>(gneiss_dynamic_shared);
}
#endif

namespace detail {

inline constexpr unsigned warp_lanes = 32;
inline constexpr unsigned whole_warp = 0xffffffffU;

} // namespace detail
} // namespace gneiss::cuda
