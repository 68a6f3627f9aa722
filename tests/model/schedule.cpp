#include <gneiss/model/schedule.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace test_model_schedule {

using namespace gneiss;

TEST_CASE("every schedule starts at 1, never rises and stays positive") {
    for (const auto name : schedule_names)
        for (const std::uint64_t total : {1U, 2U, 3U, 7U, 1000U}) {
            const schedule s = make_schedule(name);
            CHECK(s.factor(0, total) == 1);
            for (std::uint64_t step = 1; step < total; ++step) {
                CHECK(s.factor(step, total) <= s.factor(step - 1, total));
                CHECK(s.factor(step, total) > 0);
            }
            CHECK(s.factor(total + 5, total) == s.factor(total - 1, total));
            CHECK(s.factor(3, 0) == 1);
        }
}

TEST_CASE("schedules follow their formulas") {
    CHECK(make_schedule("constant").factor(900, 1000) == 1);
    CHECK(make_schedule("linear").factor(250, 1000) == doctest::Approx(.75));
    CHECK(schedule{.form = schedule::shape::linear, .floor = .5}.factor(500, 1000) == doctest::Approx(.75));
    CHECK(make_schedule("cosine").factor(500, 1000) == doctest::Approx(.5));
    CHECK(schedule{.form = schedule::shape::cosine, .floor = .2}.factor(500, 1000) == doctest::Approx(.6));
    const schedule steps{.form = schedule::shape::step, .decay = .5, .pieces = 4};
    CHECK(steps.factor(249, 1000) == 1);
    CHECK(steps.factor(250, 1000) == doctest::Approx(.5));
    CHECK(steps.factor(999, 1000) == doctest::Approx(.125));
}

TEST_CASE("a warm-up rises to the curve in equal steps, and the curve begins after it") {
    for (const auto name : schedule_names) {
        CAPTURE(name);
        schedule warm = make_schedule(name);
        warm.warmup = 3;
        for (std::uint64_t step = 0; step < 3; ++step)
            CHECK(warm.factor(step, 20) == doctest::Approx((static_cast<double>(step) + 1) / 4));
        for (std::uint64_t step = 3; step < 20; ++step)
            CHECK(warm.factor(step, 20) == make_schedule(name).factor(step - 3, 17));
        CHECK(warm.factor(1, 2) == doctest::Approx(.5)); // a run that ends within its warm-up
        CHECK(warm.factor(5, 2) == 1);
    }
}

TEST_CASE(
    "a plateau multiplies by its decay after each run of validations without a better one, as a count by hand says") {
    plateau_decay rate(.5, 2);
    const bool better[] = {true, false, true, false, false, false, false, true, false, false};
    const double factor[] = {1, 1, 1, 1, .5, .5, .25, .25, .25, .125};
    for (std::size_t i = 0; i < std::size(better); ++i) {
        rate.add(better[i]);
        CHECK(rate.factor() == factor[i]);
    }
    CHECK_THROWS_AS(plateau_decay(0, 2), error);
    CHECK_THROWS_AS(plateau_decay(1.5, 2), error);
    CHECK_THROWS_AS(plateau_decay(.5, 0), error);
}

TEST_CASE("an unknown schedule is refused by name") {
    CHECK_THROWS_WITH((void)make_schedule("cosin"), doctest::Contains("cosin"));
}

} // namespace test_model_schedule
