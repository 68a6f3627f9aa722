// SPDX-License-Identifier: Apache-2.0
#pragma once

// The only header that includes oneTBB.
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

namespace detail {

/// Runs tasks on threads started and joined here. Used under the thread sanitizer, which does not see into the oneTBB
/// library and reports its handoffs between threads as races. Tasks of two threads are ordered only by their own
/// synchronization.
template <class Body>
void run_on_own_threads(std::size_t tasks, std::size_t threads, Body& body) {
    std::atomic<bool> failed{false};
    std::exception_ptr failure;
    const auto work = [&](std::size_t first) {
        for (std::size_t task = first; task < tasks && !failed.load(std::memory_order_relaxed); task += threads) try {
                body(task);
            } catch (...) {
                if (!failed.exchange(true, std::memory_order_relaxed)) failure = std::current_exception();
            }
    };
    {
        std::vector<std::jthread> others;
        for (std::size_t i = 1; i < std::min(tasks, threads); ++i) others.emplace_back(work, i);
        work(0);
    }
    if (failure) std::rethrow_exception(failure);
}

} // namespace detail

/// Runs tasks in a oneTBB arena of `threads` threads, including the caller. Copies share the arena.
///
///     const tbb_executor executor(4); // without an argument: all CPUs
///     parallel_for(executor, values.size(), 1024, [&](std::size_t i, std::size_t end) { use(values, i, end); });
///
/// Several threads may run tasks at once, and tasks may run tasks; all share the threads of the arena. An exception
/// cancels tasks that have not started and is rethrown. Cost: one arena entry per call, and one unit of stealing per
/// task; a single task runs on the caller, outside the arena.
class tbb_executor {
public:
    /// `threads` 0: all hardware threads. More than the hardware offers are granted.
    explicit tbb_executor(std::size_t threads = 0)
        : more_(threads > static_cast<std::size_t>(tbb::info::default_concurrency())
                  ? std::make_shared<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads)
                  : nullptr),
          arena_(std::make_shared<tbb::task_arena>(
              threads == 0 ? tbb::task_arena::automatic : static_cast<int>(threads))) {
        arena_->initialize();
    }

    template <class Body>
    void run(std::size_t tasks, Body&& body) const {
        if (tasks == 0) return;
        if (tasks == 1) {
            body(std::size_t{0});
            return;
        }
        if constexpr (detail::thread_sanitizer)
            detail::run_on_own_threads(tasks, concurrency(), body);
        else
            arena_->execute([&] {
                tbb::parallel_for(std::size_t{0}, tasks, [&](std::size_t i) { body(i); }, tbb::simple_partitioner{});
            });
    }
    [[nodiscard]] std::size_t concurrency() const noexcept {
        return static_cast<std::size_t>(arena_->max_concurrency());
    }

private:
    std::shared_ptr<tbb::global_control> more_; // lifts oneTBB's limit of one thread per core
    std::shared_ptr<tbb::task_arena> arena_;
};

static_assert(executor<tbb_executor>);

} // namespace gneiss
