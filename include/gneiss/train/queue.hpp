// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <gneiss/core/error.hpp>

namespace gneiss {

/// What a queue holds at most. An item larger than `bytes` passes alone.
struct queue_capacity {
    std::uint64_t items = 4;
    std::uint64_t bytes = ~std::uint64_t{0};
};

/// A bounded queue that hands items out in the order of their sequence numbers, whoever finishes first.
///
/// Producers push (number, item) for numbers 0, 1, 2, … each once, in any order; consumers pop ascending numbers without
/// gaps. So several workers of a stage do not change what the next stage sees. The item that is next in order never
/// waits for room, so a full queue cannot deadlock.
///
/// Thread-safe. Every blocking call ends when the queue is closed. After `close(error)` both sides throw it; after
/// `close()` pops give what is left, then nothing.
template <class T>
class ordered_queue {
public:
    explicit ordered_queue(queue_capacity capacity = {}) : capacity_(capacity) {}

    /// Waits for room. Returns false when the queue was closed. Adds the time spent waiting to `waited`.
    bool push(std::uint64_t number, T item, std::uint64_t bytes = 0, std::chrono::nanoseconds* waited = nullptr) {
        std::unique_lock lock(mutex_);
        wait(lock, waited, [&] {
            return closed_ || number == next_ ||
                   (held_.size() < capacity_.items && (held_.empty() || bytes_ + bytes <= capacity_.bytes));
        });
        if (error_) std::rethrow_exception(error_);
        if (closed_) return false;
        bytes_ += bytes;
        held_.emplace(number, std::pair(std::move(item), bytes));
        changed_.notify_all();
        return true;
    }

    /// The next item in order; empty when the queue is closed and drained. Adds the time spent waiting to `waited`.
    [[nodiscard]] std::optional<T> pop(std::chrono::nanoseconds* waited = nullptr) {
        std::unique_lock lock(mutex_);
        wait(lock, waited, [&] { return (!held_.empty() && held_.begin()->first == next_) || closed_; });
        if (error_) std::rethrow_exception(error_);
        if (held_.empty() || held_.begin()->first != next_) return std::nullopt;
        auto node = held_.extract(held_.begin());
        bytes_ -= node.mapped().second;
        ++next_;
        changed_.notify_all();
        return std::move(node.mapped().first);
    }

    /// No more pushes; what is held is still popped.
    void close() {
        const std::scoped_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    /// Wakes everybody with `error`. The first error stays.
    void close(std::exception_ptr error) {
        const std::scoped_lock lock(mutex_);
        closed_ = true;
        if (!error_) error_ = std::move(error);
        held_.clear();
        changed_.notify_all();
    }

private:
    template <class Ready>
    void wait(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds* waited, const Ready& ready) {
        if (ready()) return;
        const auto since = std::chrono::steady_clock::now();
        changed_.wait(lock, ready);
        if (waited != nullptr) *waited += std::chrono::steady_clock::now() - since;
    }

    const queue_capacity capacity_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::uint64_t, std::pair<T, std::uint64_t>> held_; // few: capacity_.items
    std::uint64_t next_ = 0;
    std::uint64_t bytes_ = 0;
    bool closed_ = false;
    std::exception_ptr error_;
};

} // namespace gneiss
