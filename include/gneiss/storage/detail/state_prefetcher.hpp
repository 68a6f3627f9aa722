// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss::detail {

/// Prefetches one object per state of a plan, in order, one state ahead of the consumer, on its own thread.
///
/// At most two objects are alive, those of consecutive states: the third is begun when the last user of the first
/// releases it, even if the second is gone already. An object that does not fit together with the previous one is begun
/// when none is alive: it waits rather than take more memory. Thread-safety: one thread acquires; objects may be
/// dropped on any. Exceptions of `make` are rethrown by `acquire`.
template <class T>
class state_prefetcher {
public:
    /// `make` makes an object. `fits` returns true if it fits in memory together with the object made last. Both are
    /// called by the loading thread only. Precondition, not checked: all objects are gone before this; one that is
    /// dropped later writes to freed memory.
    /// \param track  of the loading thread; null: no trace
    /// \param span   name of the span of `make`
    explicit state_prefetcher(
        std::function<std::unique_ptr<T>(const buffer_state&)> make,
        std::function<bool(const buffer_state&)> fits = [](const buffer_state&) { return true; },
        std::unique_ptr<trace_track> track = {}, const char* span = "")
        : make_(std::move(make)),
          fits_(std::move(fits)),
          track_(std::move(track)),
          span_(span) {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    ~state_prefetcher() {
        thread_.request_stop();
        const std::scoped_lock lock(mutex_);
        changed_.notify_all();
    }
    state_prefetcher(const state_prefetcher&) = delete;
    state_prefetcher& operator=(const state_prefetcher&) = delete;

    /// Starts a plan at `first_state`; loading begins at once, or when no object of an earlier plan is held.
    void begin(epoch_plan states, std::uint32_t first_state) {
        const std::size_t count = states.size();
        begin(
            count, [plan = std::move(states)](std::uint64_t index) { return plan[static_cast<std::size_t>(index)]; },
            first_state);
    }
    /// The same for a plan of `count` states that is not in memory: the loading thread calls `state_of(index)` when the
    /// state is about to be loaded.
    void begin(std::uint64_t count, std::function<buffer_state(std::uint64_t)> state_of, std::uint64_t first_state) {
        drop_unused();
        const std::scoped_lock lock(mutex_);
        state_of_ = std::move(state_of);
        states_ = count;
        next_ = wanted_ = first_state;
        changed_.notify_all();
    }

    /// Abandons the plan, drops objects not acquired, and calls `drop` while nothing is being made. Waits until no
    /// acquired object is held.
    template <class Drop>
    void forget(Drop&& drop) {
        drop_unused();
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return alive_.empty() || failure_; });
        drop();
    }

    /// Returns the object of state `index`; in order, once each. Waits while two earlier objects are held. Rethrows
    /// exceptions of `make`; throws errc::canceled; errc::invalid_argument for another state than the next one of the
    /// plan.
    [[nodiscard]] std::shared_ptr<const T> acquire(std::uint64_t index, const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] {
            const std::scoped_lock lock(mutex_);
            changed_.notify_all();
        });
        std::unique_lock lock(mutex_);
        if (failure_) std::rethrow_exception(failure_);
        if (index != wanted_ || index >= states_)
            throw error(errc::invalid_argument,
                "state " + std::to_string(index) + " is acquired, " +
                    (wanted_ < states_ ? "the next one is state " + std::to_string(wanted_)
                                       : "no further one is in the plan of " + std::to_string(states_)));
        changed_.wait(lock, [&] { return failure_ || find(index) != ready_.size() || stop.stop_requested(); });
        if (failure_) std::rethrow_exception(failure_);
        const std::size_t found = find(index);
        if (found == ready_.size()) throw error(errc::canceled, "stopped while loading a state");
        ++wanted_;
        return std::move(ready_[found].second);
    }

    /// For `make`: sets the bytes moved for the state, for the trace.
    void moved(std::uint64_t bytes) noexcept { moved_ = bytes; }

    /// Returns true if `acquire(index)` would not wait, or if `index` is beyond the plan.
    [[nodiscard]] bool ready(std::uint64_t index) const {
        const std::scoped_lock lock(mutex_);
        return failure_ || index >= states_ || find(index) != ready_.size();
    }

private:
    using numbered = std::pair<std::uint64_t, std::shared_ptr<const T>>; // null: free

    /// Returns the index in ready_ of the state's object; ready_.size() if none.
    [[nodiscard]] std::size_t find(std::uint64_t index) const noexcept {
        const auto found =
            std::ranges::find_if(ready_, [&](const numbered& one) { return one.second && one.first == index; });
        return static_cast<std::size_t>(found - ready_.begin());
    }

    /// Ends a plan: nothing more of it is made, and objects not acquired are dropped before the next one begins.
    void drop_unused() {
        std::array<numbered, 2> unused; // dropping one locks
        const std::scoped_lock lock(mutex_);
        states_ = next_ = wanted_ = 0;
        upcoming_.reset();
        ready_.swap(unused);
        ++epoch_;
    }
    /// Returns true if the next state's object may be made: only that of the previous state, if any, is alive.
    [[nodiscard]] bool may_make() {
        if (next_ >= states_) return false;
        if (!alive_.empty() && (alive_.size() != 1 || alive_.front() + 1 != made_)) return false;
        if (!upcoming_) upcoming_ = state_of_(next_);
        return alive_.empty() || fits_(*upcoming_);
    }
    void gone(std::uint64_t number) {
        const std::scoped_lock lock(mutex_);
        std::erase(alive_, number);
        changed_.notify_all();
    }

    void run(const std::stop_token& stop) {
        std::unique_lock lock(mutex_);
        try {
            while (!stop.stop_requested()) {
                if (!may_make()) {
                    const trace_span waits(
                        next_ < states_ ? track_.get() : nullptr, "wait for a state to end", {.state = next_});
                    changed_.wait(lock);
                    continue;
                }
                const buffer_state wanted = std::move(*upcoming_);
                upcoming_.reset();
                const std::uint64_t index = next_++, epoch = epoch_, number = made_++;
                alive_.push_back(number);
                lock.unlock();
                std::shared_ptr<const T> result;
                {
                    trace_span span(track_.get(), span_, {.state = index});
                    moved_ = trace_arguments::none;
                    result = {make_(wanted).release(), [this, number](const T* old) {
                                  delete old;
                                  gone(number);
                              }};
                    span.bytes(moved_);
                }
                lock.lock();
                if (epoch == epoch_)
                    *std::ranges::find(ready_, nullptr, &numbered::second) = {index, std::move(result)};
                changed_.notify_all();
                if (result) { // belongs to an abandoned plan
                    lock.unlock();
                    result.reset();
                    lock.lock();
                }
            }
        } catch (...) {
            if (!lock.owns_lock()) lock.lock();
            failure_ = std::current_exception();
            changed_.notify_all();
        }
    }

    std::function<std::unique_ptr<T>(const buffer_state&)> make_;
    std::function<bool(const buffer_state&)> fits_;
    std::unique_ptr<trace_track> track_;
    const char* span_;
    std::uint64_t moved_ = trace_arguments::none; // bytes moved; loading thread only

    mutable std::mutex mutex_; // guards the members below
    std::condition_variable changed_;
    std::function<buffer_state(std::uint64_t)> state_of_;
    std::uint64_t states_ = 0;             // states of the plan
    std::uint64_t next_ = 0;               // next state to load
    std::uint64_t wanted_ = 0;             // next state to acquire
    std::optional<buffer_state> upcoming_; // that state, once requested
    std::uint64_t made_ = 0;               // objects so far: their numbers
    std::vector<std::uint64_t> alive_;     // numbers of those in memory or being made, at most two
    std::array<numbered, 2> ready_;        // after alive_, from which each is erased when it is dropped
    std::uint64_t epoch_ = 0;
    std::exception_ptr failure_;

    std::jthread thread_; // after the members it uses; joined before they are destroyed
};

} // namespace gneiss::detail
