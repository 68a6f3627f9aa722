#include <gneiss/core/executor/ref.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>

#include <stdexcept>
#include <vector>

using namespace gneiss;

TEST_CASE("a reference runs on the executor it stands for") {
    const serial_executor serial;
    const tbb_executor threads(2);
    for (const executor_ref on : {executor_ref(serial), executor_ref(threads)}) {
        std::vector<int> visits(1000);
        parallel_for(on, visits.size(), 7, [&](std::size_t begin, std::size_t end) {
            for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        CHECK(visits == std::vector<int>(1000, 1));
    }
    CHECK(executor_ref(serial).concurrency() == 1);
    CHECK(executor_ref(threads).concurrency() == threads.concurrency());
}

TEST_CASE("an exception passes through a reference") {
    const serial_executor serial;
    CHECK_THROWS_AS(executor_ref(serial).run(1, [](std::size_t) { throw std::runtime_error("task"); }), std::runtime_error);
}
