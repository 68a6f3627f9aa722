// SPDX-License-Identifier: Apache-2.0
#include "kit/run/device.hpp"

#include <gneiss/core/error.hpp>

namespace trainers {

std::unique_ptr<compute_device> open_cuda_device(std::optional<std::uint64_t> /*memory*/, std::uint64_t /*pinned*/) {
    throw gneiss::error(gneiss::errc::unsupported, "this build has no CUDA backend");
}

device_counts device_counts_so_far() { return {}; }

} // namespace trainers
