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

/// Capacity of a queue. An item larger than `bytes` passes alone.
struct queue_capacity {
    std::uint64_t items = 4;                 ///< most items
    std::uint64_t bytes = ~std::uint64_t{0}; ///< most bytes
};

/// A bounded queue that delivers items in the order of their sequence numbers, regardless of which producer finishes
/// first.
///
///     ordered_queue<batch> queue({.items = 4});
///     queue.push(number, std::move(made));     // on any number of threads
///     while (auto next = queue.pop()) use(*next); // in order, until close()
///
/// Producers push (number, item) for numbers 0, 1, 2, … each once, in any order; consumers pop ascending numbers
/// without gaps. So the number of workers of a stage does not change what the next stage receives. The next item in
/// order never waits for room, so a full queue cannot deadlock.
///
/// Thread-safe. Closing the queue ends every blocking call. After `close(error)` both sides throw it; after `close()`
/// pops return the remaining items, then nothing.
template <class T>
class ordered_queue {
public:
    /// Makes an empty queue.
    explicit ordered_queue(queue_capacity capacity = {}) : capacity_(capacity) {}

    /// Waits for room. Returns false if the queue is closed. Adds the time spent waiting to `waited`.
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

    /// Returns the next item in order; empty if the queue is closed and drained. Adds the time spent waiting to
    /// `waited`.
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

    /// Ends pushes; remaining items can still be popped.
    void close() {
        const std::scoped_lock lock(mutex_);
        closed_ = true;
        changed_.notify_all();
    }
    /// Rethrows `error` to all waiters. The first error wins.
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
