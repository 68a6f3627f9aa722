// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>

namespace gneiss::cuda {

/// Slots of pinned memory, used in turn: the host fills one while the device still reads earlier ones.
///
///     auto rows = ring.next();               // waits only while the device has not done with its oldest use
///     … fill rows …
///     copy_async(on_device, rows, in);
///     ring.used(in);                         // `rows` is free again when `in` has passed this
///
/// Not thread-safe. next() allocates nothing.
template <class T>
class pinned_ring {
public:
    /// Allocates `slots` slots of `size` elements. Throws `over_budget`, `device_error`; `errc::invalid_argument` for
    /// no slots.
    pinned_ring(memory_budget& budget, const std::string& name, std::size_t slots, std::size_t size) : size_(size) {
        if (slots == 0) throw error(errc::invalid_argument, name + ": a ring needs a slot");
        if (size > std::numeric_limits<std::size_t>::max() / sizeof(T) / slots)
            throw error(errc::out_of_range,
                name + ": " + std::to_string(slots) + " slots of " + std::to_string(size) + " elements");
        memory_ = pinned_buffer<T>(budget, name, slots * size);
        for (std::size_t i = 0; i < slots; ++i) last_use_.emplace_back();
    }

    /// Returns the number of slots.
    [[nodiscard]] std::size_t slots() const noexcept { return last_use_.size(); }

    /// Returns the next slot; waits until its last use has passed.
    [[nodiscard]] std::span<T> next() {
        current_ = (current_ + 1) % slots();
        last_use_[current_].synchronize();
        return memory_.span().subspan(current_ * size_, size_);
    }
    /// Marks the slot of next() as in use until the current work of `in` is done.
    void used(cudaStream_t in) { last_use_[current_].record(in); }

private:
    std::size_t size_;
    pinned_buffer<T> memory_;
    std::deque<event> last_use_;
    std::size_t current_ = 0;
};

} // namespace gneiss::cuda
