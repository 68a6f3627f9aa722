#include <gneiss/train/queue.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

namespace test_train_queue {

using namespace gneiss;

TEST_CASE("items leave in the order of their numbers, whoever pushes first") {
    ordered_queue<int> queue({.items = 2});
    std::vector<int> seen;
    {
        std::jthread consumer([&] {
            while (const auto item = queue.pop()) seen.push_back(*item);
        });
        std::atomic<int> next{0};
        std::vector<std::jthread> producers;
        for (int w = 0; w < 3; ++w)
            producers.emplace_back([&] {
                for (int i = next++; i < 500; i = next++) queue.push(static_cast<std::uint64_t>(i), i);
            });
        producers.clear();
        queue.close();
    }
    REQUIRE(seen.size() == 500);
    for (int i = 0; i < 500; ++i) CHECK(seen[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("an item larger than the capacity in bytes passes alone") {
    ordered_queue<int> queue({.items = 8, .bytes = 10});
    CHECK(queue.push(0, 7, 1000));
    CHECK(queue.pop() == 7);
}

TEST_CASE("a queue never exceeds its capacity, except by the next item") {
    ordered_queue<int> queue({.items = 2, .bytes = 100});
    CHECK(queue.push(1, 1, 60));
    std::atomic<bool> pushed{false};
    std::latch started(1);
    std::jthread late([&] {
        started.count_down();
        queue.push(2, 2, 60); // over capacity until 0 and 1 have left
        pushed = true;
    });
    started.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(10)); // time for a push that does not wait
    CHECK(queue.push(0, 0, 60));                                // next in order: never waits
    CHECK(!pushed);
    CHECK(queue.pop() == 0);
    CHECK(queue.pop() == 1);
    CHECK(queue.pop() == 2);
}

TEST_CASE("closing with an error rethrows it on both sides") {
    ordered_queue<int> empty;
    ordered_queue<int> full({.items = 1});
    full.push(1, 1);
    std::atomic<int> woken{0};
    {
        std::jthread consumer([&] {
            try {
                (void)empty.pop();
            } catch (const error& e) {
                woken += e.code() == errc::io;
            }
        });
        std::jthread producer([&] {
            try {
                full.push(2, 2);
            } catch (const error& e) {
                woken += e.code() == errc::io;
            }
        });
        const auto why = std::make_exception_ptr(error(errc::io, "disk gone"));
        empty.close(why);
        full.close(why);
    }
    CHECK(woken == 2);
}

} // namespace test_train_queue
