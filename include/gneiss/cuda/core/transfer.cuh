// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>

namespace gneiss::cuda {

/// An array on both sides: `size` elements that are copied between host and device.
template <class T>
struct transferred {
    std::span<T> host;   ///< pinned
    T* device = nullptr; ///< same elements in device memory

    [[nodiscard]] std::size_t size() const noexcept { return host.size(); }
};

/// Transfers one batch over the bus, in one block of pinned and one of device memory: consecutive arrays, copied
/// together.
///
///     // to the device                                  // and back
///     slot.begin();                                     slot.begin();
///     auto rows = slot.room<float>(n * columns);        auto gradients = slot.room<float>(n * columns);
///     … fill rows.host, slot.put(labels) …              slot.ready(compute);
///     slot.copy_in(copies);                                … kernels of `compute` write gradients.device …
///     slot.ready(compute);                              slot.done(compute);
///     … kernels of `compute` read rows.device …         slot.copy_out(back);
///     slot.done(compute);                               slot.wait(); // then gradients.host is there
///
/// Streams wait for each other by events: the copy for the kernels that last used the slot, the kernels for the copy.
/// The host waits for the slot's last copy, in wait(), and in begin() unless it is known to have passed. Arrays
/// requested in the same order with the same capacities have the same addresses each time, so that a step recorded as a
/// graph finds them; ready() and done() are outside of it.
///
/// Cost: one copy, and one more after each gap of `gap` bytes or more that capacities leave. Allocates nothing after
/// the constructor, except the list of such gaps. Errors: `over_budget` for arrays that do not fit; errc::out_of_range
/// for more elements than their capacity; `device_error`. Not thread-safe. A slot may pass from thread to thread with
/// its batch, and can begin() again after done() or wait().
class transfer_slot {
public:
    static constexpr std::size_t alignment = 256;             ///< alignment of every array, on both sides [bytes]
    static constexpr std::size_t gap = std::size_t{64} << 10; ///< gaps below this are copied, too [bytes]

    /// Returns the bytes of an array in a slot.
    [[nodiscard]] static constexpr std::uint64_t array_bytes(
        std::uint64_t capacity, std::size_t element_bytes) noexcept {
        return round_up(capacity * element_bytes, std::uint64_t{alignment});
    }

    /// Allocates `bytes` on each side. Throws `over_budget`, `device_error`.
    transfer_slot(memory_budget& budget, std::string name, std::uint64_t bytes)
        : name_(std::move(name)),
          host_(budget, name_, static_cast<std::size_t>(round_up(bytes, std::uint64_t{alignment}))),
          device_(budget, name_, host_.size()) {
        parts_.reserve(32);
    }

    /// Returns the size of the slot [bytes].
    [[nodiscard]] std::size_t capacity() const noexcept { return host_.size(); }
    /// Returns the bytes taken by arrays since begin().
    [[nodiscard]] std::size_t used() const noexcept { return used_; }
    /// Returns the bytes that copy_in() or copy_out() copies.
    [[nodiscard]] std::size_t copied_bytes() const noexcept {
        std::size_t sum = 0;
        for (const part& one : parts_) sum += one.end - one.begin;
        return sum;
    }

    /// Returns the bytes that put() copied since begin().
    [[nodiscard]] std::size_t put_bytes() const noexcept { return put_bytes_; }
    /// Removes the arrays; the host waits until the last copy is done.
    void begin() {
        wait();
        used_ = put_bytes_ = 0;
        parts_.clear();
    }
    /// Reserves room for `size` elements, uninitialized, in the space of `capacity`.
    template <class T>
        requires std::is_trivially_copyable_v<T>
    transferred<T> room(std::size_t size, std::size_t capacity) {
        static_assert(alignof(T) <= alignment);
        if (size > capacity)
            throw error(errc::out_of_range,
                name_ + ": " + std::to_string(size) + " elements where there is room for " + std::to_string(capacity));
        if (capacity > (host_.size() - used_) / sizeof(T) || array_bytes(capacity, sizeof(T)) > host_.size() - used_)
            throw over_budget(host_.size(),
                {{name_, used_, memory_kind::pinned},
                    {"an array of the batch", capacity * sizeof(T), memory_kind::pinned}});
        const std::size_t begin = used_, end = begin + size * sizeof(T);
        used_ += static_cast<std::size_t>(array_bytes(capacity, sizeof(T)));
        if (size != 0) {
            if (!parts_.empty() && begin - parts_.back().end < gap)
                parts_.back().end = end;
            else
                parts_.push_back({begin, end});
        }
        return {{reinterpret_cast<T*>(host_.data() + begin), size}, reinterpret_cast<T*>(device_.data() + begin)};
    }
    /// Adds an array of `size` elements without spare room.
    template <class T>
    transferred<T> room(std::size_t size) {
        return room<T>(size, size);
    }
    /// Lets only the first `bytes` of the slot be copied: its arrays have no more.
    void cut(std::size_t bytes) noexcept {
        while (!parts_.empty() && parts_.back().begin >= bytes) parts_.pop_back();
        if (!parts_.empty()) parts_.back().end = std::min(parts_.back().end, bytes);
    }
    /// Adds a copy of `from`.
    template <class T>
    transferred<std::remove_const_t<T>> put(std::span<T> from, std::size_t capacity) {
        const auto result = room<std::remove_const_t<T>>(from.size(), capacity);
        if (!from.empty()) std::memcpy(result.host.data(), from.data(), from.size_bytes());
        put_bytes_ += from.size_bytes();
        return result;
    }
    /// Adds a copy of `from` without spare room.
    template <class T>
    transferred<std::remove_const_t<T>> put(std::span<T> from) {
        return put(from, from.size());
    }
    /// Returns the device address of a part of one of the arrays, such as a mini-batch that was put, or made, in this
    /// slot.
    template <class T>
    [[nodiscard]] T* device(std::span<T> part) noexcept {
        const auto offset = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(part.data()) - host_.data());
        GNEISS_ASSERT(part.empty() || offset + part.size_bytes() <= used_);
        return reinterpret_cast<T*>(device_.data() + (part.empty() ? 0 : offset));
    }

    /// Copies the arrays to the device, in `copies`, after the last use of the slot.
    void copy_in(stream& copies) { copy(device_.span(), host_.span(), copies); }
    /// Copies them to the host, in `copies`, after done().
    void copy_out(stream& copies) {
        copy(host_.span(), device_.span(), copies);
        detail::note_to_host(copied_bytes());
    }
    /// Makes later work of `compute` wait for the slot's last copy: uploaded data is there, downloaded data may be
    /// overwritten.
    void ready(stream& compute) const { compute.wait(copied_); }
    /// Marks the slot as in use until the current work of `compute` is done.
    void done(cudaStream_t compute) { used_until_.record(compute); }
    /// Waits on the host for the last copy, unless the host knows that it has passed.
    void wait() {
        if (!copying_) return;
        copied_.synchronize();
        copying_ = false;
    }
    /// Precondition: the host has waited for work that came after the last copy.
    void passed() noexcept { copying_ = false; }

private:
    struct part {
        std::size_t begin, end;
    };
    void copy(std::span<std::byte> to, std::span<const std::byte> from, stream& copies) {
        copies.wait(used_until_);
        for (const part& one : parts_)
            copy_async(
                to.subspan(one.begin, one.end - one.begin), from.subspan(one.begin, one.end - one.begin), copies);
        copied_.record(copies);
        copying_ = true;
    }

    std::string name_;
    pinned_buffer<std::byte> host_;
    device_buffer<std::byte> device_;
    std::size_t used_ = 0, put_bytes_ = 0;
    std::vector<part> parts_; ///< ranges to copy, ascending
    event copied_, used_until_;
    bool copying_ = false; ///< the last copy may be in progress
};

} // namespace gneiss::cuda
