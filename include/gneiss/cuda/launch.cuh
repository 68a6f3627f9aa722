// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/error.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/device_api.cuh>

namespace gneiss::cuda {

namespace detail {

inline constexpr std::size_t plain_shared_bytes = 48 * 1024; ///< of a block that opts in to nothing
inline constexpr unsigned most_grid_rows = 65535;            ///< blocks of a grid in y, and in z

/// Opts a kernel in to all the dynamic shared memory that its static one leaves, if a launch needs more than every
/// kernel has. The setting is the function's, for the process: as it is the same for all launches, threads and samplers
/// that set it cannot fail one another.
inline void allow_shared_memory(const void* kernel, std::size_t bytes) {
    if (bytes == 0) return;
    cudaFuncAttributes of{};
    check(cudaFuncGetAttributes(&of, kernel), "attributes of a kernel");
    const auto most = static_cast<std::size_t>(of.maxDynamicSharedSizeBytes);
    if (of.sharedSizeBytes + bytes <= plain_shared_bytes || (most > plain_shared_bytes && bytes <= most)) return;
    const std::size_t room = shared_memory_of_block() - of.sharedSizeBytes;
    if (bytes > room)
        throw error(errc::out_of_range,
            "a kernel needs " + std::to_string(bytes) + " bytes of dynamic shared memory, this GPU has " +
                std::to_string(room) + " a block");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(room)),
        "dynamic shared memory");
}

} // namespace detail

/// Starts a kernel; the only way to do so: grid × block threads with `shared_bytes` of dynamic shared memory, in
/// `stream`.
///
/// Arguments are converted to the kernel's parameters and copied before this returns; pointers must stay valid until
/// the stream has passed the kernel. More than 48 KiB of shared memory is opted in to. An empty grid starts nothing;
/// more than 65,535 blocks in y or z are refused by errc::out_of_range, as is more shared memory than a block can have.
/// A `recorder` gets all of it. Asynchronous; allocates nothing, so it can be captured in a graph: then capacities are
/// arguments, and values that change per step (counts, seed, learning rate) are read through device pointers. Throws
/// `device_error` if the launch is refused. Under the emulator the kernel runs when the stream is waited for, or at
/// once in the null stream, and its errors are thrown there.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
    Arguments&&... arguments) {
    static_assert(
        sizeof...(Parameters) == sizeof...(Arguments), "launch: one argument for each parameter of the kernel");
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
    if (grid.y > detail::most_grid_rows || grid.z > detail::most_grid_rows)
        throw error(errc::out_of_range,
            "a grid of " + std::to_string(grid.x) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.z) +
                " blocks: at most " + std::to_string(detail::most_grid_rows) + " in the last two");
    const void* function = reinterpret_cast<const void*>(kernel);
    detail::allow_shared_memory(function, shared_bytes);
    std::tuple<Parameters...> values{static_cast<Parameters>(std::forward<Arguments>(arguments))...};
    detail::call_counter::of_process().add(device_call::launch, 0, [&] {
        cudaFuncAttributes of{};
        check(cudaFuncGetAttributes(&of, function), "attributes of a kernel");
        recorded_call call{.kernel = function,
            .grid = {grid.x, grid.y, grid.z},
            .block = {block.x, block.y, block.z},
            .static_bytes = of.sharedSizeBytes,
            .dynamic_bytes = shared_bytes};
        std::apply([&](const auto&... value) { (detail::call_counter::append(call.arguments, value), ...); }, values);
        return call;
    });
#if defined(GNEISS_SIMT)
    check(simt::accepts(function, shared_bytes), "launch");
    simt::launch(stream, grid, block, shared_bytes, [kernel, values] { std::apply(kernel, values); });
#else
    std::apply(
        [&](auto&... value) {
            void* pointers[] = {&value..., nullptr}; // never of size 0
            check(cudaLaunchKernel(function, grid, block, pointers, shared_bytes, stream), "launch");
        },
        values);
#endif
}

} // namespace gneiss::cuda
