#pragma once

// The only header that sees oneTBB.
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <memory>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

/// Runs tasks in a oneTBB arena of `threads` threads, the caller among them. Copies share the arena.
class tbb_executor {
public:
    /// `threads` 0 takes what the machine offers.
    explicit tbb_executor(std::size_t threads = 0)
        : arena_(std::make_shared<tbb::task_arena>(threads == 0 ? tbb::task_arena::automatic : static_cast<int>(threads))) {
        arena_->initialize();
    }

    template <class Body>
    void run(std::size_t tasks, Body&& body) const {
        if (tasks == 0) return;
        if (tasks == 1) {
            body(std::size_t{0});
            return;
        }
        arena_->execute([&] {
            tbb::parallel_for(std::size_t{0}, tasks, [&](std::size_t i) { body(i); }, tbb::simple_partitioner{});
        });
    }
    [[nodiscard]] std::size_t concurrency() const noexcept {
        return static_cast<std::size_t>(arena_->max_concurrency());
    }

private:
    std::shared_ptr<tbb::task_arena> arena_;
};

static_assert(executor<tbb_executor>);

} // namespace gneiss
