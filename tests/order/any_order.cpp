#include <gneiss/order/any_order.hpp>

#include <gneiss/order/cost.hpp>
#include <gneiss/order/validate.hpp>

#include <doctest/doctest.h>

#include <string>

namespace test_order_any_order {

using namespace gneiss;

TEST_CASE("every named order gives valid plans for random partitions and slots, and the same ones when repeated") {
    for (std::uint64_t trial = 0; trial < 60; ++trial) {
        random_stream draw(random_key{trial, random_domain::user});
        const auto p = static_cast<std::uint32_t>(2 + draw.below(30));
        for (const std::string_view name : order_names) {
            const std::uint32_t c = name == "memory" ? p : static_cast<std::uint32_t>(2 + draw.below(p - 1));
            const any_order order = make_order(name, p, c, trial);
            CHECK(order.name() == name);
            CHECK(order.partitions() == p);
            CHECK(order.resident_partitions() == c);
            CHECK_NOTHROW(validate(order(trial), p, c));
            CHECK(order(trial) == order(trial));
            CHECK(cost_of(order(trial), 1).swaps >= swap_lower_bound(p, c));
        }
    }
}

TEST_CASE("an order converts to a plain function of the epoch") {
    const std::function<epoch_plan(std::uint64_t)> states = make_order("beta", 8, 4, 1);
    CHECK(states(2) == beta_order(8, 4, 1)(2));
}

TEST_CASE("an unknown name is refused with the valid names") {
    try {
        (void)make_order("betta", 8, 4);
        FAIL("accepted");
    } catch (const error& e) {
        CHECK(e.code() == errc::invalid_argument);
        const std::string what = e.what();
        CHECK(what.find("betta") != std::string::npos);
        for (const std::string_view name : order_names) CHECK(what.find(name) != std::string::npos);
    }
}

TEST_CASE("a buffer that is too small for the order is refused") {
    CHECK_THROWS_AS((void)make_order("memory", 8, 7), error);
    CHECK_THROWS_AS((void)make_order("beta", 8, 1), error);
    CHECK_THROWS_AS((void)make_order("hilbert", 8, 0), error);
    CHECK_THROWS_AS((void)make_order("row-major", 0, 2), error);
}

TEST_CASE("the order 'memory' has one state that trains everything, shuffled differently in each epoch") {
    const any_order order = make_order("memory", 6, 6, 3);
    CHECK(order(0).size() == 1);
    CHECK(order(0)[0].edge_buckets.size() == 36);
    CHECK(order(0) != order(1));
}

} // namespace test_order_any_order
