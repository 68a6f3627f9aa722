// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup cuda cuda
/// The device side: mirrors the other modules for a GPU.
///
/// Only these headers include CUDA. A kernel reads arguments by value and changing values from device memory, is
/// started by `launch`, and allocates nothing, so a whole training step can be recorded in a CUDA graph. With
/// `GNEISS_SIMT` the same source compiles for an emulator on the CPU, as the tests do.

/// \defgroup cuda_core cuda/core
/// \ingroup cuda
/// Device memory, streams, transfers, recorded steps, primitives of kernels.

/// \defgroup cuda_cache cuda/cache
/// \ingroup cuda
/// Belady's change sets, computed on a device.

/// \defgroup cuda_sample cuda/sample
/// \ingroup cuda
/// Neighbor samplers, and samples as kernel arguments.

/// \defgroup cuda_train cuda/train
/// \ingroup cuda
/// Backends of the training loop on a device.

/// \defgroup cuda_model cuda/model
/// \ingroup cuda
/// Kernels, layers and training steps.

/// \defgroup cuda_model_block cuda/model/block
/// \ingroup cuda_model
/// Parts of kernels that a block of threads computes together.

/// \defgroup cuda_model_device cuda/model/device
/// \ingroup cuda_model
/// Kernels over whole matrices, lists and batches.

/// \defgroup cuda_model_layer cuda/model/layer
/// \ingroup cuda_model
/// GNN layers on a device.

/// \defgroup cuda_model_step cuda/model/step
/// \ingroup cuda_model
/// Training steps on a device: encoders, classifiers, link models.

/// \addtogroup cuda
/// device_api.cuh is the vocabulary of kernels, and the only header that knows the compiler: nvcc, or (with GNEISS_SIMT
/// defined) a host compiler and the SIMT emulator of the tests, so that the same source runs on a GPU and on a CPU.
///
/// A kernel is CUDA C++20 within these limits:
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
/// - Functions: `__global__` and `__device__` functions in namespace scope; code shared by host and device is
///   `GNEISS_HD constexpr` in a host header. No device lambdas, cooperative groups, textures or inline PTX: PTX goes
///   into a small function of its own with a plain body for the emulator (`#if defined(__CUDA_ARCH__)` there).
/// - Words: threadIdx, blockIdx, blockDim, gridDim, warpSize; __syncthreads (_or, _and, _count), __syncwarp,
///   __shfl_sync, __shfl_up_sync, __shfl_down_sync, __shfl_xor_sync, __ballot_sync, __any_sync, __all_sync,
///   __match_any_sync, __match_all_sync, __reduce_{add,min,max,and,or,xor}_sync, __activemask, __threadfence (_block,
///   _system); atomicAdd, Sub, Min, Max, And, Or, Xor, Exch, CAS, Inc; __popc, __ffs, __clz, __brev and their ll forms,
///   __umulhi, __umul64hi, __float_as_uint and similar; the usual float functions.
/// - A mask names exactly the participating lanes. Naming a lane that has exited, or that never existed in a last
///   partial warp, is an error in the emulator although hardware often tolerates it; so is a __syncthreads that not
///   every thread of the block reaches.
/// - Read global memory by `__ldg(p)` (or __ldcs, __ldcg, __ldca) and write it by `__stwb(p, v)` (or __stcs, __stcg)
///   where a test counts sectors and bytes: the emulator counts only these.
/// - Vector types are those of CUDA (float4, uint4, …, make_float4); 16-bit floats are stored as gneiss's own types,
///   not as those of cuda_bf16.h.
#if defined(GNEISS_SIMT)
#include <simt/emulator.hpp>
#else
#include <cuda_runtime.h>
#endif

/// \ingroup cuda
/// Precedes a loop that must be unrolled, so that arrays it indexes stay in registers.
#if defined(__CUDACC__)
#define GNEISS_UNROLL _Pragma("unroll")
/// \ingroup cuda
/// Precedes a loop that must not be unrolled, since registers are scarce.
#define GNEISS_NO_UNROLL _Pragma("unroll 1")
#else
#define GNEISS_UNROLL
#define GNEISS_NO_UNROLL
#endif

/// The device side of gneiss.
namespace gneiss::cuda {

/// Returns the dynamic shared memory of the block, of the size given at its launch, aligned to 16 bytes.
#if defined(GNEISS_SIMT)
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
