// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <tuple>
#include <utility>

#include <gneiss/cuda/core/error.cuh>
#include <gneiss/cuda/device_api.cuh>

namespace gneiss::cuda {

/// Starts a kernel; the only way to do so: grid × block threads with `shared_bytes` of dynamic shared memory, in
/// `stream`.
///
/// Arguments are converted to the kernel's parameters and copied before this returns; pointers must stay valid until
/// the stream has passed the kernel. More than 48 KiB of shared memory is opted in to. An empty grid starts nothing.
/// Asynchronous; allocates nothing, so it can be captured in a graph: then capacities are arguments, and values that
/// change per step (counts, seed, learning rate) are read through device pointers.
/// Throws `device_error` if the launch is refused. Under the emulator the kernel runs when the stream is waited for, or
/// at once in the null stream, and its errors are thrown there.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
    Arguments&&... arguments) {
    static_assert(
        sizeof...(Parameters) == sizeof...(Arguments), "launch: one argument for each parameter of the kernel");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    std::tuple<Parameters...> values{static_cast<Parameters>(std::forward<Arguments>(arguments))...};
#if defined(GNEISS_SIMT)
    simt::launch(stream, grid, block, shared_bytes, [kernel, values] { std::apply(kernel, values); });
#else
    const void* function = reinterpret_cast<const void*>(kernel);
    if (shared_bytes > 48 * 1024)
        check(
            cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
            "dynamic shared memory");
    std::apply(
        [&](auto&... value) {
            void* pointers[] = {&value..., nullptr}; // never of size 0
            check(cudaLaunchKernel(function, grid, block, pointers, shared_bytes, stream), "launch");
        },
        values);
#endif
}

} // namespace gneiss::cuda
