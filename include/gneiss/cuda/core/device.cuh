// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gneiss/cuda/core/error.cuh>
#include <gneiss/cuda/core/recorder.cuh>

namespace gneiss::cuda {

/// Properties of a GPU, as reported by its driver.
struct device_info {
    int index = 0;                   ///< number of the device
    std::string name{};              ///< name by the driver
    int major = 0, minor = 0;        ///< compute capability
    int multiprocessors = 0;         ///< streaming multiprocessors
    std::uint64_t memory = 0;        ///< bytes
    std::uint64_t shared_memory = 0; ///< bytes that one block can opt in to
    std::uint64_t l2_cache = 0;      ///< bytes
};

namespace detail {

inline std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Returns the CUDA version that the driver supports, times 1000; 0: no driver.
inline int driver_version() {
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

/// Returns the reason for a missing device, for display.
inline std::string why_no_device(cudaError_t reason) {
    const int driver = driver_version();
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    if (reason != cudaErrorInsufficientDriver) return "no GPU";
    if (driver == 0) return "no GPU: no NVIDIA driver is installed";
    return "no GPU: the NVIDIA driver is for CUDA " + version_text(driver) + ", CUDA " + version_text(runtime) +
        " is needed";
}

} // namespace detail

/// Returns the GPUs of this machine, at least one. Throws `device_error` (`errc::unsupported`) with the reason if there
/// is none. Cost: the first call of a process starts the driver, which takes tenths of a second.
[[nodiscard]] inline std::vector<device_info> devices() {
    int count = 0;
    const cudaError_t result = cudaGetDeviceCount(&count);
    if (result != cudaSuccess) throw device_error(result, detail::why_no_device(result));
    if (count == 0) throw device_error(cudaErrorNoDevice, detail::why_no_device(cudaErrorNoDevice));
    std::vector<device_info> all;
    for (int i = 0; i < count; ++i) {
        cudaDeviceProp found;
        check(cudaGetDeviceProperties(&found, i), "properties of a GPU");
        all.push_back({i, found.name, found.major, found.minor, found.multiProcessorCount, found.totalGlobalMem,
            found.sharedMemPerBlockOptin, static_cast<std::uint64_t>(found.l2CacheSize)});
    }
    return all;
}

/// Checks that this program, of which `kernel` is any, has code for the selected device, whose properties are `of`.
/// Throws `device_error` (`errc::unsupported`) if it was built for other architectures.
inline void check_code(const device_info& of, const void* kernel) {
    cudaFuncAttributes found{};
    const cudaError_t result = cudaFuncGetAttributes(&found, kernel);
    if (result == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    throw device_error(result,
        result != cudaErrorNoKernelImageForDevice ? std::string("code for a GPU")
                                                  : "this program was built for other GPUs than " + of.name +
                " of compute capability " + std::to_string(of.major) + "." + std::to_string(of.minor));
}

/// Selects the device of this thread's later calls. Throws `device_error`.
inline void use_device(int device) { check(cudaSetDevice(device), "choosing a GPU"); }

/// Returns the shared memory that one block of the selected device can opt in to [bytes]: 99 KiB on sm_86 and sm_89,
/// 163 KiB on sm_80, 227 KiB on sm_90.
[[nodiscard]] inline std::size_t shared_memory_of_block() {
    int device = 0, bytes = 0;
    check(cudaGetDevice(&device), "the chosen GPU");
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "shared memory of a GPU");
    return static_cast<std::size_t>(bytes);
}

/// Returns the bytes of free memory of the whole device, which other processes share.
[[nodiscard]] inline std::uint64_t free_device_memory() {
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "free device memory");
    return free;
}

/// Waits for all work of this device. Throws `device_error`, also for errors of earlier kernels.
inline void synchronize_device() {
    detail::note(device_call::wait);
    check(cudaDeviceSynchronize(), "waiting for the GPU");
}

} // namespace gneiss::cuda
