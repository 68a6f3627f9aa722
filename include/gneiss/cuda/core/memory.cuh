// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/recorder.cuh>

namespace gneiss::cuda {

namespace detail {

/// Throws `device_error` with the sizes if an allocation of `bytes` for `name` failed.
inline void check_allocated(cudaError_t result, memory_kind kind, const std::string& name, std::uint64_t bytes) {
    if (result == cudaSuccess) [[likely]]
        return;
    static_cast<void>(cudaGetLastError()); // reported here; clears it for the next call
    std::string what =
        name + ": " + format_bytes(bytes) + (kind == memory_kind::device ? " of device memory" : " of pinned memory");
    std::size_t free = 0, total = 0;
    if (result == cudaErrorMemoryAllocation && kind == memory_kind::device &&
        cudaMemGetInfo(&free, &total) == cudaSuccess)
        what += ", of which " + format_bytes(free) + " of " + format_bytes(total) + " are free";
    throw device_error(result, what);
}

/// Allocates `bytes` of device or pinned host memory for `name`. Throws `device_error` with the sizes if memory is
/// short.
[[nodiscard]] inline void* allocate(memory_kind kind, const std::string& name, std::uint64_t bytes) {
    if (bytes == 0) return nullptr;
    void* pointer = nullptr;
    note(device_call::allocation, bytes);
    check_allocated(kind == memory_kind::device ? cudaMalloc(&pointer, bytes)
                                                : cudaHostAlloc(&pointer, bytes, cudaHostAllocDefault),
        kind, name, bytes);
    return pointer;
}

/// Implementation of device_buffer and pinned_buffer: an allocation that is charged to a budget for its lifetime.
template <class T, memory_kind Kind>
    requires std::is_trivially_copyable_v<T>
class buffer {
public:
    buffer() = default;
    /// Allocates `size` elements, uninitialized. Throws `over_budget` before any allocation, or `device_error`.
    buffer(memory_budget& budget, const std::string& name, std::size_t size) : size_(size) {
        if (size > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw error(errc::out_of_range, name + ": " + std::to_string(size) + " elements");
        static_cast<void>(charge_ = budget.charge(need(name, size))); // nvcc applies the type's [[nodiscard]] here
        data_ = static_cast<T*>(allocate(Kind, name, size * sizeof(T)));
    }
    buffer(buffer&& other) noexcept
        : charge_(std::move(other.charge_)),
          data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)) {}
    buffer& operator=(buffer&& other) noexcept {
        std::swap(charge_, other.charge_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    /// Waits for the device if necessary: work that uses the memory completes before it is freed.
    ~buffer() {
        if (data_ == nullptr) return;
        note(device_call::wait);
        if constexpr (Kind == memory_kind::device)
            static_cast<void>(cudaFree(data_));
        else
            static_cast<void>(cudaFreeHost(data_));
    }

    /// Returns the memory of `size` elements; the name of pinned memory says so.
    [[nodiscard]] static memory_need need(std::string name, std::size_t size) {
        if (Kind == memory_kind::pinned) name += ", pinned";
        return {std::move(name), size * sizeof(T), Kind};
    }

    [[nodiscard]] T* data() noexcept { return data_; }
    [[nodiscard]] const T* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] std::size_t bytes() const noexcept { return size_ * sizeof(T); }
    [[nodiscard]] std::span<T> span() noexcept { return {data_, size_}; }
    [[nodiscard]] std::span<const T> span() const noexcept { return {data_, size_}; }

private:
    memory_charge charge_;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace detail

/// Elements in device memory, charged as `memory_kind::device`. The host must not dereference data().
template <class T>
using device_buffer = detail::buffer<T, memory_kind::device>;
/// Elements in page-locked host memory, charged as `memory_kind::pinned`: copies to and from the device run
/// concurrently with kernels.
template <class T>
using pinned_buffer = detail::buffer<T, memory_kind::pinned>;

/// Copies all of `from` to the beginning of `to`, in `in`; each may be on either side. Both must stay valid, and `from`
/// unchanged, until the stream has passed. Memory that is not pinned is staged, and the call may wait. Throws
/// `device_error`; `errc::out_of_range` if `to` is too small.
template <class T>
    requires std::is_trivially_copyable_v<T>
void copy_async(std::span<T> to, std::span<const std::type_identity_t<T>> from, cudaStream_t in) {
    if (from.size() > to.size())
        throw error(
            errc::out_of_range, "copies " + std::to_string(from.size()) + " elements to " + std::to_string(to.size()));
    if (from.empty()) return;
    detail::note(device_call::copy, from.size_bytes(), to.data(), from.data());
    check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDefault, in), "copying");
}

/// The same, to host memory: counted as such (`calls_so_far`).
template <class T>
    requires std::is_trivially_copyable_v<T>
void copy_to_host_async(std::span<T> to, std::span<const std::type_identity_t<T>> from, cudaStream_t in) {
    copy_async(to, from, in);
    detail::note_to_host(from.size_bytes());
}

/// Sets every byte, in `in`.
template <class T>
    requires std::is_trivially_copyable_v<T>
void fill_bytes_async(std::span<T> to, unsigned char value, cudaStream_t in) {
    if (to.empty()) return;
    detail::note(device_call::fill, to.size_bytes(), to.data());
    check(cudaMemsetAsync(to.data(), value, to.size_bytes(), in), "filling");
}

} // namespace gneiss::cuda
