#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace test_core_executor_tbb {

using namespace gneiss;

TEST_CASE("the TBB executor runs every task once, with any number of threads") {
    for (const std::size_t threads : {0UL, 1UL, 2UL, 8UL})
        for (const std::size_t tasks : {0UL, 1UL, 2UL, 1000UL}) {
            const tbb_executor executor(threads);
            std::vector<std::atomic<int>> ran(tasks);
            executor.run(tasks, [&](std::size_t task) { ++ran[task]; });
            for (const auto& times : ran) CHECK(times == 1);
        }
}

TEST_CASE("the TBB executor stays within its threads, and copies share them") {
    const tbb_executor executor(2);
    const tbb_executor copy =
        executor; // NOLINT(performance-unnecessary-copy-initialization): sharing is what the test checks
    CHECK(executor.concurrency() == 2);
    std::atomic<int> running{0}, most{0};
    copy.run(200, [&](std::size_t) {
        int seen = ++running;
        for (int before = most; seen > before && !most.compare_exchange_weak(before, seen);) {
        }
        for (volatile int work = 0; work < 1000;) work = work + 1;
        --running;
    });
    CHECK(most <= 2);
    CHECK(tbb_executor().concurrency() >= 1);
}

TEST_CASE("an exception of a task reaches the caller, and the executor remains usable") {
    const tbb_executor executor(2);
    CHECK_THROWS_AS(executor.run(100,
                        [](std::size_t task) {
                            if (task == 50) throw std::runtime_error("task 50");
                        }),
        std::runtime_error);
    std::atomic<int> ran{0};
    executor.run(100, [&](std::size_t) { ++ran; });
    CHECK(ran == 100);
}

TEST_CASE("tasks may run nested tasks on the same executor") {
    const tbb_executor executor(2);
    std::atomic<int> ran{0};
    executor.run(10, [&](std::size_t) { executor.run(10, [&](std::size_t) { ++ran; }); });
    CHECK(ran == 100);
}

} // namespace test_core_executor_tbb
