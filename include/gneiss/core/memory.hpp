// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Prefetches the cache line at `address`. Any address is valid; this is not an access.
inline void prefetch([[maybe_unused]] const void* address) noexcept {
#if defined(__GNUC__)
    __builtin_prefetch(address, 0, 3);
#endif
}

/// Prefetches the cache line at `address` into the second-level cache, which takes more requests at once than the
/// first.
inline void prefetch_second_level([[maybe_unused]] const void* address) noexcept {
#if defined(__GNUC__)
    __builtin_prefetch(address, 0, 2);
#endif
}

/// Size of a huge page on common machines [bytes].
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Requests huge pages for untouched memory where it spans whole ones, so that random reads of large arrays rarely miss
/// the TLB. Advice only; a no-op where unsupported.
inline void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const auto begin = reinterpret_cast<std::uintptr_t>(data), first = round_up(begin, std::uintptr_t{huge_page_bytes}),
               last = (begin + bytes) / huge_page_bytes * huge_page_bytes;
    if (first < last) (void)::madvise(static_cast<char*>(data) + (first - begin), last - first, MADV_HUGEPAGE);
#endif
}

/// Returns a vector of `size` zeros in huge pages, for arrays with random reads.
template <class T>
[[nodiscard]] std::vector<T> huge_page_vector(std::size_t size) {
    std::vector<T> result;
    result.reserve(size);
    advise_huge_pages(result.data(), size * sizeof(T));
    result.resize(size);
    return result;
}

/// Frees the memory of `values`, as neither `clear()` nor `values = {}` does.
template <class T>
void free_memory(std::vector<T>& values) noexcept {
    std::vector<T>().swap(values);
}

/// Resizes `values` to `size`. Growing discards the contents and allocates at most an eighth more than requested;
/// `resize` would double the capacity and keep the old memory meanwhile. Memory bounds rely on this.
template <class T>
void resize_discard(std::vector<T>& values, std::size_t size) {
    if (size > values.capacity()) {
        free_memory(values);
        values.reserve(size + size / 8);
    }
    values.resize(size);
}

} // namespace gneiss
