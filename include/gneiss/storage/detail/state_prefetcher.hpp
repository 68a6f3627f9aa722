// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
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
    void begin(const epoch_plan& states, std::uint32_t first_state) {
        drop_unused();
        const std::scoped_lock lock(mutex_);
        states_ = states;
        ready_.resize(states.size());
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
    [[nodiscard]] std::shared_ptr<const T> acquire(std::uint32_t index, const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] {
            const std::scoped_lock lock(mutex_);
            changed_.notify_all();
        });
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return failure_ || ready_[index] || stop.stop_requested(); });
        if (failure_) std::rethrow_exception(failure_);
        if (!ready_[index]) throw error(errc::canceled, "stopped while loading a state");
        return std::move(ready_[index]);
    }

    /// For `make`: bytes that were moved for the state, as the trace names them.
    void moved(std::uint64_t bytes) noexcept { moved_ = bytes; }

    /// Whether `acquire(index)` would not wait; true beyond the plan.
    [[nodiscard]] bool ready(std::uint32_t index) const {
        const std::scoped_lock lock(mutex_);
        return failure_ || index >= ready_.size() || ready_[index];
    }

private:
    /// Ends a plan: nothing of it is made any more, and what was made and not asked for is gone before the next one begins.
    void drop_unused() {
        std::vector<std::shared_ptr<const T>> unused; // dropping one locks
        const std::scoped_lock lock(mutex_);
        states_.clear();
        ready_.swap(unused);
        next_ = 0;
        ++epoch_;
    }
    /// Whether the next state's thing may be made: only that of the state before, if any, is alive.
    [[nodiscard]] bool may_make() const {
        if (next_ >= states_.size()) return false;
        return alive_.empty() || (alive_.size() == 1 && alive_.front() + 1 == made_ && fits_(states_[next_]));
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
                    const trace_span waits(next_ < states_.size() ? track_.get() : nullptr, "wait for a state to end", {.state = next_});
                    changed_.wait(lock);
                    continue;
                }
                const std::uint32_t index = next_++;
                const std::uint64_t epoch = epoch_;
                const buffer_state wanted = states_[index];
                const std::uint64_t number = made_++;
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
                if (epoch == epoch_) ready_[index] = std::move(result);
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
    epoch_plan states_;
    std::uint32_t next_ = 0;
    std::uint64_t made_ = 0;           // things so far: their numbers
    std::vector<std::uint64_t> alive_; // numbers of those in memory or being made, at most two
    std::vector<std::shared_ptr<const T>> ready_; // after alive_, from which each is erased as it goes
    std::uint64_t epoch_ = 0;
    std::exception_ptr failure_;

    std::jthread thread_; // after what it uses; its end is waited for before the rest goes
};

} // namespace gneiss::detail
