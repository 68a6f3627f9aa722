#include <gneiss/core/executor/ref.hpp>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace test_core_executor_ref {

using namespace gneiss;

TEST_CASE("a reference runs every task once on its executor") {
    const serial_executor serial;
    const tbb_executor threads(2);
    for (const executor_ref executor : {executor_ref(serial), executor_ref(threads)}) {
        std::vector<std::atomic<int>> seen(1000);
        executor.run(seen.size(), [&](std::size_t i) { ++seen[i]; });
        for (const auto& s : seen) CHECK(s == 1);
        executor.run(0, [](std::size_t) { FAIL("no task"); });
        CHECK_THROWS_AS(executor.run(10, [](std::size_t i) { if (i == 3) throw std::runtime_error("three"); }), std::runtime_error);
    }
    CHECK(executor_ref(serial).concurrency() == 1);
    CHECK(executor_ref(threads).concurrency() == 2);
}

} // namespace test_core_executor_ref
