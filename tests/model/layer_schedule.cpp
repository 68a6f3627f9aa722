#include <gneiss/model/layer_schedule.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include <gneiss/core/random.hpp>

#include <support/error_code.hpp>

namespace test_model_layer_schedule {

using namespace gneiss;

namespace {

constexpr product_order cheaper = product_order::cheaper, first = product_order::first, last = product_order::last;
using orders = std::vector<product_order>;

/// Times schedules by a table of seconds a layer and order, and counts calls and schedules.
struct fake_times {
    std::vector<std::vector<double>> seconds; ///< [layers, orders]
    std::size_t calls = 0, timed = 0;

    [[nodiscard]] double of(const layer_schedule& schedule) const {
        double sum = 0;
        for (std::size_t i = 0; i < schedule.size(); ++i) sum += seconds[i][static_cast<std::size_t>(schedule[i])];
        return sum;
    }
    std::vector<std::optional<double>> operator()(std::span<const layer_schedule> schedules) {
        ++calls;
        std::vector<std::optional<double>> result;
        for (const layer_schedule& one : schedules) result.push_back(of(one));
        timed += schedules.size();
        return result;
    }
};

} // namespace

TEST_CASE("layers have a choice of two orders, but for those whose order is fixed or can only lose") {
    const auto choices = [](const char* text, input_columns in) { return product_choices(parse_layers(text), in); };
    const orders both{first, last}, none{cheaper};
    CHECK(choices("sage:8,gcn:4,gat:4x2", {.dense = 100}) == std::vector<orders>{both, both, both});
    CHECK(choices("sage:8:max,linear:4,gcn:2", {.dense = 100}) == std::vector<orders>{none, none, both});
    CHECK(choices("sage:8:product=last,gcn:4:product=first", {.dense = 100}) == std::vector<orders>{{last}, {first}});
    CHECK(choices("sage:8,gcn:8,sage:4", {.dense = 8}) == std::vector<orders>{none, none, both}); // no shorter rows
    CHECK(choices("gat:8x8,gat:8", {.dense = 8}) == std::vector<orders>{both, both});
    CHECK(choices("sage:8,gcn:4", {.dense = 0, .sparse = 50}) == std::vector<orders>{none, both});
    CHECK(schedule_of(parse_layers("sage:8:product=last,gcn:4:product=first,gat:2,linear:2")) ==
        layer_schedule{last, first, cheaper, cheaper});
    const auto layers = scheduled(parse_layers("sage:8:dropout=.5,gat:4x2"), {last, first});
    CHECK(schedule_of(layers) == layer_schedule{last, first});
    CHECK(layers[0].dropout == .5);
    CHECK(test::code_of([&] { (void)scheduled(layers, {last}); }) == errc::invalid_argument);
}

TEST_CASE(
    "the fastest of all combinations is chosen; all are timed in one call, those near it again, the given first") {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        fake_times time;
        std::vector<orders> choices;
        layer_schedule given;
        for (std::size_t i = 0; i < 4; ++i) {
            const random_key random = random_key{seed, random_domain::dropout}.with(i);
            const auto seconds = [&](std::uint64_t draw) { return static_cast<double>(random[draw] % 1000) + 1; };
            time.seconds.push_back({seconds(0), seconds(1), seconds(2)});
            choices.push_back(i == seed % 5 ? orders{cheaper} : orders{first, last});
            given.push_back(cheaper);
        }
        const schedule_choice found = choose_schedule(given, choices, time);
        std::size_t near = 0; // in another one than the given schedule
        for (const timed_schedule& one : found.timed)
            near += one.products != given && time.of(one.products) <= 1.1 * time.of(found.products());
        CHECK(time.calls == (near == 0 ? 1 : 2));
        CHECK(time.timed == found.timed.size() + (near == 0 ? 0 : near + 1));
        CHECK(found.timed.size() == (seed % 5 < 4 ? 9 : 17));
        CHECK(found.timed[0].products == given);
        std::set<layer_schedule> distinct;
        for (const timed_schedule& one : found.timed) {
            distinct.insert(one.products);
            CHECK(one.seconds == time.of(one.products));
            CHECK(time.of(found.products()) <= *one.seconds);
        }
        CHECK(distinct.size() == found.timed.size());
        CHECK(found.gain() == doctest::Approx(time.of(given) / time.of(found.products())));
    }
}

TEST_CASE("many layers are chosen one after another, by at most two passes") {
    fake_times time;
    std::vector<orders> choices;
    for (std::size_t i = 0; i < 8; ++i) {
        time.seconds.push_back({3, i % 2 == 0 ? 2.0 : 1.0, i % 2 == 0 ? 1.0 : 2.0});
        choices.push_back({first, last});
    }
    const schedule_choice found = choose_schedule(layer_schedule(8, cheaper), choices, time);
    CHECK(found.products() == layer_schedule{last, first, last, first, last, first, last, first});
    CHECK(time.calls == 16 + 1);
    CHECK(time.timed == 8 * 3 + 8 * 2 + 2); // the best so far and two orders, then one; the given and the chosen again
    CHECK(found.timed.front().products == layer_schedule(8, cheaper));
    CHECK(found.gain() == doctest::Approx(3));
}

TEST_CASE("a moment in which one schedule was slow, or fast, decides only if the second timing agrees") {
    int call = 0;
    const auto by_script = [&](const std::vector<std::vector<double>>& seconds) {
        call = 0;
        return [&call, seconds](std::span<const layer_schedule> all) {
            std::vector<std::optional<double>> result;
            const std::vector<double>& now = seconds.at(static_cast<std::size_t>(call++));
            REQUIRE(now.size() == all.size());
            for (const double one : now) result.push_back(one == 0 ? std::nullopt : std::optional(one));
            return result;
        };
    };
    // the given one, first, last
    const auto choose = [&](const std::vector<std::vector<double>>& seconds) {
        return choose_schedule({cheaper}, {{first, last}}, by_script(seconds));
    };
    const schedule_choice slow = choose({{10, 9.5, 9.0}, {10, 9.0, 9.9}});
    CHECK(slow.chosen == 1);
    CHECK(slow.timed[1].seconds == doctest::Approx(9.25));
    CHECK(slow.timed[2].seconds == doctest::Approx(9.45));
    CHECK(slow.gain() == doctest::Approx(10 / 9.25));
    const schedule_choice far = choose({{20, 30, 9.0}, {20, 9.2}}); // 30 is not timed again
    CHECK(far.chosen == 2);
    CHECK(far.timed[1].seconds == 30.0);
    CHECK(choose({{9, 20, 20}}).chosen == 0); // nothing near the given one: it is not timed again
    CHECK(call == 1);
    CHECK(choose({{10, 9.9, 9.9}, {10, 9.9, 0}}).chosen == 1); // left out by the second timing
}

TEST_CASE("nothing is timed without a choice; what cannot be timed is not chosen; the first of equals is") {
    fake_times time{.seconds = {{1, 1, 1}, {1, 1, 1}}};
    const schedule_choice none = choose_schedule({cheaper, last}, {{cheaper}, {last}}, time);
    CHECK(time.calls == 0);
    CHECK(none.products() == layer_schedule{cheaper, last});
    CHECK(none.gain() == 1);
    CHECK(choose_schedule({cheaper, cheaper}, {{first, last}, {first, last}}, time).chosen == 0);
    const auto without_last = [](std::span<const layer_schedule> all) {
        std::vector<std::optional<double>> result;
        for (const layer_schedule& one : all)
            result.push_back(one[0] == last ? std::nullopt : std::optional(one[0] == first ? 2.0 : 3.0));
        return result;
    };
    const schedule_choice found = choose_schedule({cheaper}, {{first, last}}, without_last);
    CHECK(found.products() == layer_schedule{first});
    CHECK(found.timed[2].seconds == std::nullopt);
    const auto no_times = [](std::span<const layer_schedule> all) {
        return std::vector<std::optional<double>>(all.size());
    };
    CHECK(choose_schedule({cheaper}, {{first, last}}, no_times).products() == layer_schedule{cheaper});
    CHECK(choose_schedule({cheaper}, {{first, last}}, no_times).gain() == 1);
    CHECK(test::code_of([&] { (void)choose_schedule({cheaper}, {}, time); }) == errc::invalid_argument);
    const auto few = [](std::span<const layer_schedule>) { return std::vector<std::optional<double>>(1, 1.0); };
    CHECK(test::code_of([&] { (void)choose_schedule({cheaper}, {{first, last}}, few); }) == errc::invalid_argument);
}

} // namespace test_model_layer_schedule
