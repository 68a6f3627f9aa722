// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/train/batch_room.hpp>

namespace gneiss::cuda {

/// Transfer slots by the number of the batch in flight, each as large as its largest batch so far: nothing is allocated
/// after the first few batches. Precondition of begin(): the slot's last work has completed. Thread-safety: different
/// threads may use different slots.
class growing_slots {
public:
    /// Slots that charge `budget` under `name`.
    growing_slots(memory_budget& budget, std::string name) : budget_(budget), name_(std::move(name)) {}

    /// Makes slots for batches 0 … count − 1. Precondition: no work is in flight.
    void resize(std::size_t count) { slots_.resize(count); }
    /// Returns the slot of a batch, after its begin(), with room for `bytes`. Throws `over_budget`, `device_error`.
    [[nodiscard]] transfer_slot& begin(std::size_t number, std::uint64_t bytes) {
        std::unique_ptr<transfer_slot>& slot = slots_.at(number);
        if (slot && slot->capacity() >= bytes) {
            slot->begin();
            return *slot;
        }
        if (slot) slot->wait();
        slot.reset();
        slot = std::make_unique<transfer_slot>(budget_, name_, grown(bytes));
        return *slot;
    }
    /// Returns a slot.
    [[nodiscard]] transfer_slot& operator[](std::size_t number) { return *slots_.at(number); }

private:
    memory_budget& budget_;
    std::string name_;
    std::vector<std::unique_ptr<transfer_slot>> slots_;
};

/// Device memory of one stream, as large as the largest request so far. Growing discards its contents.
template <class T>
class reusable_device_buffer {
public:
    /// Buffer that charges `budget` under `name`.
    reusable_device_buffer(memory_budget& budget, std::string name) : budget_(budget), name_(std::move(name)) {}

    /// Returns room for `size` elements, uninitialized; before growing, waits for the work of `in`. Throws
    /// `over_budget`.
    [[nodiscard]] T* at_least(std::size_t size, const stream& in) {
        if (buffer_.size() < size) {
            in.synchronize();
            buffer_ = {};
            buffer_ = device_buffer<T>(budget_, name_, static_cast<std::size_t>(grown(size)));
            ++growths_;
        }
        return buffer_.data();
    }
    /// Returns how often the memory was replaced.
    [[nodiscard]] std::uint64_t growths() const noexcept { return growths_; }

private:
    memory_budget& budget_;
    std::string name_;
    device_buffer<T> buffer_;
    std::uint64_t growths_ = 0;
};

} // namespace gneiss::cuda
