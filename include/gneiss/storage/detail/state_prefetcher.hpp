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
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss::detail {

/// Makes something of each state of a plan, in order, one state ahead of who uses it, on a thread of its own.
///
/// At most two of them are alive, and those of consecutive states: the third is begun when the last user of the first let it
/// go, even where the second is gone already. One that does not fit beside the one before is begun when nothing is alive: it
/// waits rather than take more memory. Thread-safety: one thread asks; what it got may be dropped on any. What `make` throws
/// is rethrown by `acquire`.
template <class T>
class state_prefetcher {
public:
    /// `make`, and `fits`, which tells whether a state's thing may be alive beside that of the state made last, are called by
    /// the loading thread alone. Things made must be gone before this.
    /// \param track  of the loading thread; null: nothing is traced
    /// \param span   what `make` is called there
    explicit state_prefetcher(std::function<std::unique_ptr<T>(const buffer_state&)> make,
        std::function<bool(const buffer_state&)> fits = [](const buffer_state&) { return true; }, std::unique_ptr<trace_track> track = {}, const char* span = "")
        : make_(std::move(make)), fits_(std::move(fits)), track_(std::move(track)), span_(span) {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    ~state_prefetcher() {
        thread_.request_stop();
        const std::scoped_lock lock(mutex_);
        changed_.notify_all();
    }
    state_prefetcher(const state_prefetcher&) = delete;
    state_prefetcher& operator=(const state_prefetcher&) = delete;

    /// Starts a plan at `first_state`; loading begins at once. Precondition: nothing of an earlier plan is held.
    void begin(epoch_plan states, std::uint32_t first_state) {
        const std::size_t count = states.size();
        begin(count, [plan = std::move(states)](std::uint64_t index) { return plan[static_cast<std::size_t>(index)]; }, first_state);
    }
    /// The same for a plan of `count` states that is not in memory: `state_of(index)` makes one when it is about to be loaded. It is
    /// called by the loading thread.
    void begin(std::uint64_t count, std::function<buffer_state(std::uint64_t)> state_of, std::uint64_t first_state) {
        drop_unused();
        const std::scoped_lock lock(mutex_);
        state_of_ = std::move(state_of);
        states_ = count;
        next_ = first_state;
        changed_.notify_all();
    }

    /// Abandons the plan, drops what was made and not asked for, and calls `drop` while nothing is being made.
    /// Precondition: nothing that was asked for is held.
    template <class Drop>
    void forget(Drop&& drop) {
        drop_unused();
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return alive_.empty() || failure_; });
        drop();
    }

    /// What was made of state `index`; asked for in order, once each. Throws what making threw, or errc::canceled.
    [[nodiscard]] std::shared_ptr<const T> acquire(std::uint64_t index, const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] {
            const std::scoped_lock lock(mutex_);
            changed_.notify_all();
        });
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return failure_ || find(index) != ready_.size() || stop.stop_requested(); });
        if (failure_) std::rethrow_exception(failure_);
        const std::size_t found = find(index);
        if (found == ready_.size()) throw error(errc::canceled, "stopped while loading a state");
        return std::move(ready_[found].second);
    }

    /// For `make`: bytes that were moved for the state, as the trace names them.
    void moved(std::uint64_t bytes) noexcept { moved_ = bytes; }

    /// Whether `acquire(index)` would not wait; true beyond the plan.
    [[nodiscard]] bool ready(std::uint64_t index) const {
        const std::scoped_lock lock(mutex_);
        return failure_ || index >= states_ || find(index) != ready_.size();
    }

private:
    using numbered = std::pair<std::uint64_t, std::shared_ptr<const T>>; // null: free

    /// Which place of ready_ has the state's; as many as there are: none.
    [[nodiscard]] std::size_t find(std::uint64_t index) const noexcept {
        const auto found = std::ranges::find_if(ready_, [&](const numbered& one) { return one.second && one.first == index; });
        return static_cast<std::size_t>(found - ready_.begin());
    }

    /// Ends a plan: nothing of it is made any more, and what was made and not asked for is gone before the next one begins.
    void drop_unused() {
        std::array<numbered, 2> unused; // dropping one locks
        const std::scoped_lock lock(mutex_);
        states_ = next_ = 0;
        upcoming_.reset();
        ready_.swap(unused);
        ++epoch_;
    }
    /// Whether the next state's thing may be made: only that of the state before, if any, is alive.
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
                    const trace_span waits(next_ < states_ ? track_.get() : nullptr, "wait for a state to end", {.state = next_});
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
                if (epoch == epoch_) *std::ranges::find(ready_, nullptr, &numbered::second) = {index, std::move(result)};
                changed_.notify_all();
                if (result) { // of a plan that was abandoned
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
    std::uint64_t moved_ = trace_arguments::none; // the loading thread's

    mutable std::mutex mutex_; // guards what follows
    std::condition_variable changed_;
    std::function<buffer_state(std::uint64_t)> state_of_;
    std::uint64_t states_ = 0;             // of the plan
    std::uint64_t next_ = 0;               // to be made
    std::optional<buffer_state> upcoming_; // that state, once it was looked at
    std::uint64_t made_ = 0;           // things so far: their numbers
    std::vector<std::uint64_t> alive_; // numbers of those in memory or being made, at most two
    std::array<numbered, 2> ready_;    // after alive_, from which each is erased as it goes
    std::uint64_t epoch_ = 0;
    std::exception_ptr failure_;

    std::jthread thread_; // after what it uses; its end is waited for before the rest goes
};

} // namespace gneiss::detail
