// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/merge.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/cache/detail/belady_accesses.cuh>

// Vectors of accesses and rows in the memory of Thrust's device, which may be the host.
namespace gneiss::cuda::detail {

/// Waits for a stream before the host, or another stream, reads its results. Policies of the host need no wait.
template <class Policy>
void wait_for(const Policy& executor) {
#if defined(__CUDACC__)
    auto policy = executor;
    if (const cudaError_t result = thrust::cuda_cub::synchronize(policy); result != cudaSuccess)
        throw error(errc::io, std::string("change sets on a GPU: ") + cudaGetErrorString(result));
#else
    static_cast<void>(executor);
#endif
}

template <class T>
[[nodiscard]] T* raw(thrust::device_vector<T>& of) {
    return thrust::raw_pointer_cast(of.data());
}
template <class T, class Policy>
[[nodiscard]] std::vector<T> on_host(const Policy& executor, const thrust::device_vector<T>& from) {
    wait_for(executor);
    std::vector<T> to(from.size());
    thrust::copy(from.begin(), from.end(), to.begin());
    return to;
}
template <class T>
[[nodiscard]] thrust::device_vector<T> on_device(std::span<const T> from) {
    return thrust::device_vector<T>(from.begin(), from.end());
}
/// Returns the elements of [first, first + size) that satisfy `keep`, in order.
template <class T, class Policy, class Iterator, class Keep>
[[nodiscard]] thrust::device_vector<T> chosen(
    const Policy& executor, Iterator first, std::size_t size, const Keep& keep) {
    const auto count = thrust::count_if(executor, first, first + static_cast<std::ptrdiff_t>(size), keep);
    thrust::device_vector<T> to(static_cast<std::size_t>(count));
    thrust::copy_if(executor, first, first + static_cast<std::ptrdiff_t>(size), to.begin(), keep);
    return to;
}
template <class To, class Policy, class From, class F>
[[nodiscard]] thrust::device_vector<To> mapped(
    const Policy& executor, const thrust::device_vector<From>& from, const F& f) {
    thrust::device_vector<To> to(from.size());
    thrust::transform(executor, from.begin(), from.end(), to.begin(), f);
    return to;
}
/// Returns the start of each batch's part in an ascending list of batches. [batches + 1]
template <class Policy>
[[nodiscard]] std::vector<std::uint32_t> starts_of(
    const Policy& executor, const thrust::device_vector<std::uint32_t>& batch, std::uint32_t batches) {
    thrust::device_vector<std::uint32_t> starts(batches + 1);
    const auto first = thrust::counting_iterator<std::uint32_t>(0);
    thrust::lower_bound(executor, batch.begin(), batch.end(), first, first + batches + 1, starts.begin());
    return on_host(executor, starts);
}

/// Rows without further use, batch by batch: the last to stay, in order of ids.
template <class Policy>
class unused_rows {
public:
    /// \param held  rows resident before the first batch, ascending
    unused_rows(const Policy& executor, std::span<const node_id> held) : executor_(executor), held_(on_device(held)) {}

    /// Adds rows up to entered[end], removes the `leaving` greatest ids and writes them, as `key_of_batch`, to keys[0,
    /// leaving). O(1) if none leaves, O(leaving) if all do, else O(resident).
    template <class Keys>
    void after(std::uint32_t batch, const thrust::device_vector<node_id>& entered, std::size_t end, std::size_t leaving,
        Keys keys) {
        if (leaving == 0) return;
        const auto begin = entered.begin();
        const key_of_batch key{batch};
        const std::size_t fresh = end - merged_;
        if (leaving == held_.size() + fresh) { // all, in any order
            keys = thrust::transform(executor_, held_.begin(), held_.end(), keys, key);
            thrust::transform(executor_, begin + static_cast<std::ptrdiff_t>(merged_),
                begin + static_cast<std::ptrdiff_t>(end), keys, key);
            held_.clear();
        } else {
            thrust::device_vector<node_id> sorted(
                begin + static_cast<std::ptrdiff_t>(merged_), begin + static_cast<std::ptrdiff_t>(end)),
                both(held_.size() + fresh);
            thrust::sort(executor_, sorted.begin(), sorted.end());
            thrust::merge(executor_, held_.begin(), held_.end(), sorted.begin(), sorted.end(), both.begin());
            const auto first = both.end() - static_cast<std::ptrdiff_t>(leaving);
            thrust::transform(executor_, first, both.end(), keys, key);
            wait_for(executor_);
            both.resize(both.size() - leaving);
            held_.swap(both);
        }
        merged_ = end;
    }
    [[nodiscard]] std::vector<node_id> rows(const thrust::device_vector<node_id>& entered) const {
        std::vector<node_id> all = on_host(executor_, held_);
        const std::vector<node_id> more = on_host(executor_, entered);
        all.insert(all.end(), more.begin() + static_cast<std::ptrdiff_t>(merged_), more.end());
        return all;
    }

private:
    const Policy& executor_;
    thrust::device_vector<node_id> held_; // ascending
    std::size_t merged_ = 0;              // entered rows that are merged
};

} // namespace gneiss::cuda::detail
