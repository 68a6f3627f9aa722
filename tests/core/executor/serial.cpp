#include <gneiss/core/executor/serial.hpp>

#include <doctest/doctest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace test_core_executor_serial {

using namespace gneiss;

TEST_CASE("the serial executor runs every task in order on the calling thread") {
    std::vector<std::size_t> ran;
    const auto caller = std::this_thread::get_id();
    serial_executor{}.run(5, [&](std::size_t task) {
        CHECK(std::this_thread::get_id() == caller);
        ran.push_back(task);
    });
    CHECK(ran == std::vector<std::size_t>{0, 1, 2, 3, 4});
    CHECK(serial_executor::concurrency() == 1);
}

TEST_CASE("the serial executor stops at the first exception") {
    int ran = 0;
    CHECK_THROWS_AS(serial_executor{}.run(5,
                        [&](std::size_t task) {
                            ++ran;
                            if (task == 2) throw std::runtime_error("task 2");
                        }),
        std::runtime_error);
    CHECK(ran == 3);
}

} // namespace test_core_executor_serial
