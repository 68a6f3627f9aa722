// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>

namespace gneiss::cuda {

/// Scratch memory of Thrust's algorithms, from the pool of a stream: neither call waits for the device, as cudaMalloc
/// and cudaFree do. Everything is charged to a budget until it is returned.
///
///     stream_allocator scratch(budget, "sorting", in);
///     thrust::sort(thrust::cuda::par_nosync(scratch).on(in.get()), …);
///
/// Models Thrust's allocator. Not thread-safe.
class stream_allocator {
public:
    using value_type = char; ///< bytes, as Thrust asks for them

    /// Allocates for work of `in`, charged under `name`. Both outlive this.
    stream_allocator(memory_budget& budget, std::string name, stream& in)
        : budget_(budget),
          name_(std::move(name)),
          in_(in) {}
    stream_allocator(const stream_allocator&) = delete; // it frees its own allocations
    stream_allocator& operator=(const stream_allocator&) = delete;

    /// Throws `over_budget`, or `device_error` with the sizes.
    [[nodiscard]] char* allocate(std::ptrdiff_t bytes) {
        if (bytes == 0) return nullptr;
        const auto size = static_cast<std::uint64_t>(bytes);
        memory_charge charge = budget_.charge({name_, size, memory_kind::device});
        void* data = nullptr;
        detail::note(device_call::allocation, size);
        detail::check_allocated(cudaMallocAsync(&data, size, in_.get()), memory_kind::device, name_, size);
        taken_.emplace(static_cast<char*>(data), std::move(charge));
        return static_cast<char*>(data);
    }
    /// Returns memory to the pool, once the stream has passed its current work.
    void deallocate(char* data, std::size_t /*bytes*/) noexcept {
        if (taken_.erase(data) != 0) static_cast<void>(cudaFreeAsync(data, in_.get()));
    }

private:
    memory_budget& budget_;
    std::string name_;
    stream& in_;
    std::unordered_map<char*, memory_charge> taken_;
};

} // namespace gneiss::cuda
