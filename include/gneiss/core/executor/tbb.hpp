#pragma once

// The only header that sees oneTBB.
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <cstddef>
#include <memory>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

namespace detail {

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GNEISS_THREAD_SANITIZER 1
#endif
#endif
#if defined(GNEISS_THREAD_SANITIZER) || defined(__SANITIZE_THREAD__)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif

/// A body that tells the thread sanitizer, which does not see into the oneTBB library, what that promises: the caller's
/// past comes before every task, and every task before this ends. Two tasks remain unordered.
template <class Body>
class forked_body {
public:
    explicit forked_body(Body& body) { body_.store(&body, std::memory_order_release); }
    forked_body(const forked_body&) = delete;
    forked_body& operator=(const forked_body&) = delete;
    ~forked_body() { (void)ended_.load(std::memory_order_acquire); }

    void operator()(std::size_t task) const {
        Body& body = *body_.load(std::memory_order_acquire);
        const at_end release{ended_};
        body(task);
    }

private:
    struct at_end {
        std::atomic<int>& ended;
        ~at_end() { ended.fetch_add(1, std::memory_order_release); }
    };

    std::atomic<Body*> body_{nullptr};
    mutable std::atomic<int> ended_{0};
};

} // namespace detail

/// Runs tasks in a oneTBB arena of `threads` threads, the caller among them. Copies share the arena.
///
/// Several threads may run tasks at once, and tasks may run tasks; all share the arena's threads. An exception of a
/// task cancels those that have not begun and is rethrown. Cost: the arena is entered once a call, and each task is a
/// unit of stealing; a single task runs on the caller, outside the arena.
class tbb_executor {
public:
    /// `threads` 0 takes what the machine offers; more than it offers are given too.
    explicit tbb_executor(std::size_t threads = 0)
        : more_(threads > static_cast<std::size_t>(tbb::info::default_concurrency())
                    ? std::make_shared<tbb::global_control>(tbb::global_control::max_allowed_parallelism, threads)
                    : nullptr),
          arena_(std::make_shared<tbb::task_arena>(threads == 0 ? tbb::task_arena::automatic : static_cast<int>(threads))) {
        arena_->initialize();
    }

    template <class Body>
    void run(std::size_t tasks, Body&& body) const {
        if (tasks == 0) return;
        if (tasks == 1) {
            body(std::size_t{0});
            return;
        }
        const auto execute = [&](const auto& each) {
            arena_->execute([&] { tbb::parallel_for(std::size_t{0}, tasks, each, tbb::simple_partitioner{}); });
        };
        if constexpr (detail::thread_sanitizer)
            execute(detail::forked_body(body));
        else
            execute([&](std::size_t i) { body(i); });
    }
    [[nodiscard]] std::size_t concurrency() const noexcept {
        return static_cast<std::size_t>(arena_->max_concurrency());
    }

private:
    std::shared_ptr<tbb::global_control> more_; // lifts oneTBB's limit of one thread a core
    std::shared_ptr<tbb::task_arena> arena_;
};

static_assert(executor<tbb_executor>);

} // namespace gneiss
