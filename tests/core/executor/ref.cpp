#include <gneiss/core/executor/ref.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace test_core_executor_ref {

using namespace gneiss;

TEST_CASE("a reference runs every task once on its executor") {
    const serial_executor serial;
    const tbb_executor threads(2);
    for (const executor_ref& executor : {executor_ref(serial), executor_ref(threads)}) {
        std::vector<std::atomic<int>> seen(1000);
        executor.run(seen.size(), [&](std::size_t i) { ++seen[i]; });
        for (const auto& s : seen) CHECK(s == 1);
        executor.run(0, [](std::size_t) { FAIL("no task"); });
        CHECK_THROWS_AS(executor.run(10,
                            [](std::size_t i) {
                                if (i == 3) throw std::runtime_error("three");
                            }),
            std::runtime_error);
    }
    CHECK(executor_ref(serial).concurrency() == 1);
    CHECK(executor_ref(threads).concurrency() == 2);
}

namespace {

struct counting { // not empty: its state must live
    std::shared_ptr<int> calls;
    template <class Body>
    void run(std::size_t tasks, const Body& body) const {
        ++*calls;
        for (std::size_t i = 0; i < tasks; ++i) body(i);
    }
    [[nodiscard]] static std::size_t concurrency() { return 1; }
};

} // namespace

TEST_CASE("a reference to a temporary executor keeps it, and copies of the reference share it") {
    const auto calls = std::make_shared<int>(0);
    const auto work = [](const executor_ref& on) {
        std::size_t sum = 0;
        on.run(4, [&](std::size_t i) { sum += i; });
        return sum;
    };
    {
        const executor_ref kept = counting{calls}, copy = kept, empty = serial_executor{};
        CHECK(work(kept) == 6);
        CHECK(work(copy) == 6);
        CHECK(work(empty) == 6);
        CHECK(*calls == 2);
        const counting outlives{calls};
        const executor_ref refers = outlives;
        CHECK(calls.use_count() == 3); // one copy for both references to the temporary, none of `outlives`
        CHECK(work(refers) == 6);
    }
    CHECK(calls.use_count() == 1);
}

} // namespace test_core_executor_ref
