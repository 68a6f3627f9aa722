// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>

#include <gneiss/cuda/core/pool.cuh>

namespace gneiss::cuda {

/// Allocator of a `device_pool` for Thrust algorithms, which repeatedly allocate scratch:
/// thrust::cuda::par_nosync(allocator).on(stream), one stream per pool. Refers to the pool. Not thread-safe.
class pool_allocator {
public:
    using value_type = char; ///< bytes, as Thrust asks for them

    /// Refers to `pool`.
    explicit pool_allocator(device_pool& pool) noexcept : pool_(&pool) {}
    pool_allocator(const pool_allocator&) = delete; // it must free its own allocations
    pool_allocator& operator=(const pool_allocator&) = delete;

    /// Throws `over_budget` if the pool is exhausted.
    [[nodiscard]] char* allocate(std::ptrdiff_t bytes) {
        pool_buffer<char> part = pool_->take<char>(static_cast<std::size_t>(bytes));
        char* const data = part.data();
        if (data != nullptr) lent_.emplace(data, std::move(part));
        return data;
    }
    /// Returns memory to the pool.
    void deallocate(char* data, std::size_t /*bytes*/) noexcept { lent_.erase(data); }

private:
    device_pool* pool_;
    std::unordered_map<char*, pool_buffer<char>> lent_;
};

} // namespace gneiss::cuda
