#include "kit/report/trace_window.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace test_cli_common_trace_window {

using namespace programs;
using namespace std::chrono_literals;

TEST_CASE("a window keeps the first spans up to its limit, whatever the order of blocks") {
    trace_window window(40);
    for (const char* thread : {"slow", "quick"}) // one after the other, as blocks are written
        for (int i = 0; i < 1000; ++i) {
            const auto at = thread == std::string("slow") ? i * 10ms : i * 1ms;
            window.add(thread, {"step", 5s + at, 5s + at + 500us, {.batch = static_cast<std::uint64_t>(i)}});
        }
    const auto rows = window.rows();
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].name == "slow");
    CHECK(rows[0].bars.size() + rows[1].bars.size() <= 40);
    CHECK(rows[1].bars.size() >= 20);
    double ends = 0;
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.bars.size(); ++i)
            CHECK(row.bars[i].name == "step, batch " + std::to_string(i)); // all are present
        ends = std::max(ends, row.bars.back().to);
    }
    CHECK(rows[0].bars.front().from == 0);
    CHECK(rows[0].bars.size() == static_cast<std::size_t>(rows[1].bars.back().from * 100 + 1e-6) + 1);
    CHECK(ends <= rows[1].bars.back().to + 1e-9);
}

TEST_CASE("outer spans precede inner ones; each wait has the color of its reason") {
    trace_window window;
    window.add("loop", {"wait for room before gather", 2ms, 3ms, {}});
    window.add("loop", {"wait for update", 3ms, 4ms, {}});
    window.add("loop", {"wait for partitions", 4ms, 5ms, {.state = 1, .bytes = 7}});
    window.add("loop", {"epoch", 2ms, 9ms, {.epoch = 0}});
    const auto rows = window.rows();
    REQUIRE(rows.size() == 1);
    REQUIRE(rows[0].bars.size() == 4);
    CHECK(rows[0].bars[0].name == "epoch");
    CHECK(rows[0].bars[0].what == plot::doing::work);
    CHECK(rows[0].bars[1].what == plot::doing::wait_for_room);
    CHECK(rows[0].bars[2].what == plot::doing::wait_for_update);
    CHECK(rows[0].bars[3].what == plot::doing::wait_for_input);
    CHECK(rows[0].bars[3].name == "wait for partitions, state 1, bytes 7");
    CHECK(trace_window().rows().empty());
}

} // namespace test_cli_common_trace_window
