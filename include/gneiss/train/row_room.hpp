// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/row_memory.hpp>

namespace gneiss {

/// Returns for how many of `in_flight` batches memory of rows, between gather and update, is planned: all but one,
/// which is being sampled; where staleness lets it gather earlier, it waits for room.
[[nodiscard]] constexpr std::size_t batches_with_rows(std::size_t in_flight) noexcept {
    return in_flight > 1 ? in_flight - 1 : 1;
}

/// Memory shared by the rows of all batches, between gather and update.
///
/// Meaning: a batch takes what its rows need; one that does not fit waits until the others are applied, and then runs
/// alone. So any room that holds the largest batch works, and a larger one lets more batches overlap. Idle memory is
/// kept for the following batches, and freed if the bound requires it. `take_alone` is for a batch that needs more than
/// the room: its memory is freed by `put`.
/// Thread-safety: `take` by one thread at a time, in batch order; `put` by any. Cost: one lock per call.
class row_room {
public:
    /// \param bytes  bound of all rows; 0: no bound
    explicit row_room(std::uint64_t bytes) : bytes_(bytes) {}

    /// Returns memory that may grow to `need` bytes; waits until that fits.
    /// Throws over_budget, naming `what`, for more than the room; errc::canceled when `stop` is requested first.
    [[nodiscard]] row_memory take(std::uint64_t need, std::string_view what, const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        if (bytes_ != 0 && need > bytes_) throw over_budget(bytes_, {{std::string(what), need}});
        wait(lock, stop, [&] { return !alone_ && (bytes_ == 0 || taken_ + need <= bytes_); });
        row_memory memory;
        if (!idle_.empty()) {
            memory = std::move(idle_.back());
            idle_.pop_back();
            idle_bytes_ -= memory.counted;
        }
        // Memory that a large batch grew is freed if it does not fit, or would keep another batch of this size from
        // fitting.
        const bool crowds = memory.counted > bytes_ / 2 && need <= bytes_ / 2;
        if (bytes_ != 0 && (crowds || taken_ + memory.counted > bytes_)) memory = {};
        memory.counted = std::max(need, memory.counted);
        while (bytes_ != 0 && !idle_.empty() && taken_ + memory.counted + idle_bytes_ > bytes_) {
            idle_bytes_ -= idle_.back().counted;
            idle_.pop_back();
        }
        taken_ += memory.counted;
        ++holders_;
        return memory;
    }

    /// Waits until no batch has rows. Throws errc::canceled when `stop` is requested first.
    void drain(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        wait(lock, stop, [&] { return holders_ == 0; });
    }

    /// Returns memory of any size for a batch that runs alone: waits until no other has rows, and frees idle memory.
    /// Throws errc::canceled when `stop` is requested first.
    [[nodiscard]] row_memory take_alone(std::uint64_t need, const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        wait(lock, stop, [&] { return holders_ == 0; });
        idle_.clear();
        idle_bytes_ = 0;
        alone_ = true;
        taken_ = need;
        ++holders_;
        return {.rows = {}, .gradients = {}, .relations = {}, .counted = need, .alone = true};
    }

    /// Returns memory taken before.
    void put(row_memory memory) {
        if (memory.alone) { // freed before another batch takes any
            memory.rows = {};
            memory.gradients = {};
            memory.relations = {};
        }
        {
            const std::scoped_lock lock(mutex_);
            taken_ -= memory.counted;
            --holders_;
            if (memory.alone) {
                alone_ = false;
            } else {
                idle_bytes_ += memory.counted;
                idle_.push_back(std::move(memory));
            }
        }
        freed_.notify_one();
    }

    /// Frees idle memory.
    void release() {
        const std::scoped_lock lock(mutex_);
        idle_.clear();
        idle_bytes_ = 0;
    }

private:
    template <class Ready>
    void wait(std::unique_lock<std::mutex>& lock, const std::stop_token& stop, Ready ready) {
        if (!freed_.wait(lock, stop, ready)) throw error(errc::canceled, "a batch waits for room that others have");
    }

    std::uint64_t bytes_;
    std::mutex mutex_;
    std::condition_variable_any freed_;
    std::uint64_t taken_ = 0, idle_bytes_ = 0;
    std::size_t holders_ = 0; // batches with rows
    bool alone_ = false;      // one of them runs alone
    std::vector<row_memory> idle_;
};

} // namespace gneiss
