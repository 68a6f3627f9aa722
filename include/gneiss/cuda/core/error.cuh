// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/device_api.cuh>

namespace gneiss::cuda {

/// A failed call of the CUDA runtime. `code()` is `errc::unsupported` if there is no GPU, no driver for it, or
/// no code; `errc::over_budget` if device or pinned memory ran out, else `errc::io`; `reason()` is CUDA's own.
class device_error : public error {
public:
    /// Makes an error of a failed call, named by `operation`.
    device_error(cudaError_t reason, const std::string& operation)
        : error(code_of(reason), operation + ": " + cudaGetErrorString(reason) + " (" + cudaGetErrorName(reason) + ")"),
          reason_(reason) {}

    /// Returns the error code of CUDA.
    [[nodiscard]] cudaError_t reason() const noexcept { return reason_; }

private:
    static errc code_of(cudaError_t reason) noexcept {
        switch (reason) {
        case cudaErrorInsufficientDriver:
        case cudaErrorNoDevice:
        case cudaErrorNoKernelImageForDevice: return errc::unsupported;
        case cudaErrorMemoryAllocation: return errc::over_budget;
        default: return errc::io;
        }
    }

    cudaError_t reason_;
};

/// Throws `device_error` unless `result` is success, and clears the runtime's last error, which a later check, such as
/// Thrust's, would report as its own.
inline void check(cudaError_t result, const char* operation) {
    if (result == cudaSuccess) [[likely]]
        return;
    static_cast<void>(cudaGetLastError());
    throw device_error(result, operation);
}

} // namespace gneiss::cuda
