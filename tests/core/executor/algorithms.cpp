#include <gneiss/core/executor/algorithms.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace test_core_executor_algorithms {

using namespace gneiss;

namespace {

/// Runs `test` on the calling thread, and on one, two and five threads.
template <class Test>
void on_every_executor(Test test) {
    test(serial_executor{});
    for (const std::size_t threads : {1UL, 2UL, 5UL}) test(tbb_executor{threads});
}

std::vector<std::uint64_t> random_words(std::size_t size) {
    std::vector<std::uint64_t> words(size);
    random_stream random(random_key{size, random_domain::user});
    for (std::uint64_t& word : words) word = random();
    return words;
}

constexpr std::size_t sizes[] = {0, 1, 2, 7, 8, 9, 1000, 4096};
constexpr std::size_t grains[] = {0, 1, 8, 5000};

} // namespace

TEST_CASE("parallel_for covers every index once, in ranges of at most the grain") {
    on_every_executor([](const auto& executor) {
        for (const std::size_t size : sizes)
            for (const std::size_t grain : grains) {
                std::vector<int> visits(size);
                parallel_for(executor, size, grain, [&](std::size_t begin, std::size_t end) {
                    if (end - begin > std::max<std::size_t>(grain, 1)) return; // shows up as an index not visited
                    for (std::size_t i = begin; i < end; ++i) ++visits[i];
                });
                CHECK(std::ranges::count(visits, 1) == static_cast<std::ptrdiff_t>(size));
            }
    });
}

TEST_CASE("parallel_for_in_order takes every range once, in ascending order, after it is made") {
    on_every_executor([](const auto& executor) {
        for (const std::size_t size : sizes)
            for (const std::size_t grain : grains) {
                std::vector<int> made(size);
                std::vector<std::size_t> taken; // no lock: one thread takes at a time
                parallel_for_in_order(
                    executor, size, grain,
                    [&](std::size_t begin, std::size_t end) {
                        volatile std::uint64_t work = 0; // ranges end out of order
                        for (std::size_t i = 0; i < mix64(begin) % 500; ++i) work = work + i;
                        for (std::size_t i = begin; i < end; ++i) ++made[i];
                    },
                    [&](std::size_t begin, std::size_t end) {
                        for (std::size_t i = begin; i < end; ++i) {
                            CHECK(made[i] == 1);
                            taken.push_back(i);
                        }
                    });
                REQUIRE(taken.size() == size);
                for (std::size_t i = 0; i < size; ++i) CHECK(taken[i] == i);
            }
    });
}

TEST_CASE("parallel_for_in_order takes all ranges if the caller makes none, and runs tasks in any order") {
    /// Runs tasks backwards, on a thread that is not the caller's.
    struct elsewhere {
        void run(std::size_t tasks, const std::function<void(std::size_t)>& body) const {
            std::jthread([&] {
                for (std::size_t task = tasks; task-- > 0;) body(task);
            });
        }
        [[nodiscard]] std::size_t concurrency() const { return 1; }
    };
    for (const std::size_t size : {1UL, 3UL, 98UL}) {
        std::size_t next = 0;
        std::vector<std::thread::id> takers;
        parallel_for_in_order(
            elsewhere{}, size, 1, [](std::size_t, std::size_t) {},
            [&](std::size_t begin, std::size_t) {
                CHECK(begin == next++);
                takers.push_back(std::this_thread::get_id());
            });
        CHECK(next == size);
        // The other thread steps in once the caller is behind, and the caller takes what is left.
        CHECK((takers.front() == std::this_thread::get_id()) == (size < 98));
        CHECK(takers.back() == std::this_thread::get_id());
    }
}

TEST_CASE("parallel_for_in_order takes nothing at or after a range that failed") {
    on_every_executor([](const auto& executor) {
        for (const bool in_make : {false, true}) {
            std::vector<std::size_t> taken;
            CHECK_THROWS_AS(parallel_for_in_order(
                                executor, 100, 1,
                                [&](std::size_t begin, std::size_t) {
                                    if (in_make && begin == 40) throw std::runtime_error("make");
                                },
                                [&](std::size_t begin, std::size_t) {
                                    if (!in_make && begin == 40) throw std::runtime_error("take");
                                    taken.push_back(begin);
                                }),
                std::runtime_error);
            CHECK(taken.size() <= 40);
            for (std::size_t i = 0; i < taken.size(); ++i) CHECK(taken[i] == i);
        }
    });
}

TEST_CASE("parallel_reduce gives the same floating-point bits on every executor") {
    std::vector<double> values(10000);
    random_stream random(random_key{1, random_domain::user});
    for (double& value : values) value = std::exp(40 * to_unit(random()) - 20); // any other order gives other bits
    const auto sum_of = [&](const auto& executor, std::size_t grain) {
        return parallel_reduce(executor, values.size(), grain, 0.0, [&](std::size_t begin, std::size_t end) {
            double sum = 0;
            for (std::size_t i = begin; i < end; ++i) sum += values[i];
            return sum;
        });
    };
    for (const std::size_t grain : {1UL, 7UL, 100UL, 20000UL}) {
        const double expected = sum_of(serial_executor{}, grain);
        on_every_executor([&](const auto& executor) { CHECK(sum_of(executor, grain) == expected); });
    }
}

TEST_CASE("parallel_reduce folds chunks in order, with operations that do not commute") {
    on_every_executor([](const auto& executor) {
        const auto digits = parallel_reduce(executor, 10, 3, std::string{}, [](std::size_t begin, std::size_t end) {
            std::string text;
            for (std::size_t i = begin; i < end; ++i) text += std::to_string(i);
            return text;
        });
        CHECK(digits == "0123456789");
        CHECK(parallel_reduce(executor, 0, 3, 42, [](std::size_t, std::size_t) { return 1; }) == 42);
    });
}

TEST_CASE("exclusive_scan equals std::exclusive_scan and returns the total") {
    on_every_executor([](const auto& executor) {
        for (const std::size_t size : sizes)
            for (const std::size_t grain : {1UL, 8UL, 5000UL}) {
                std::vector<std::uint64_t> values = random_words(size), expected(size);
                const auto total = std::accumulate(values.begin(), values.end(), std::uint64_t{0});
                std::exclusive_scan(values.begin(), values.end(), expected.begin(), std::uint64_t{0});
                CHECK(exclusive_scan(executor, values, grain) == total);
                CHECK(values == expected);
            }
    });
}

TEST_CASE("parallel_sort equals std::sort") {
    on_every_executor([](const auto& executor) {
        for (const std::size_t size : sizes)
            for (const std::size_t grain : {1UL, 8UL, 600UL, 5000UL}) {
                std::vector<std::uint64_t> values = random_words(size), expected = values;
                std::ranges::sort(expected, std::greater{});
                parallel_sort(executor, values, std::greater{}, grain);
                CHECK(values == expected);
            }
    });
}

} // namespace test_core_executor_algorithms
