#include <gneiss/order/validate.hpp>

#include <gneiss/order/beta.hpp>

#include <doctest/doctest.h>

#include <string>

namespace test_order_validate {

using namespace gneiss;

namespace {

std::string complaint(const epoch_plan& states, std::uint32_t partitions, std::uint32_t slots) {
    try {
        validate(states, partitions, slots);
    } catch (const error& e) {
        CHECK(e.code() == errc::invalid_argument);
        return e.what();
    }
    return "";
}

} // namespace

TEST_CASE("each violation of a plan is named with its state") {
    const epoch_plan good = beta_order(6, 3, 1)(0);
    CHECK(complaint(good, 6, 3).empty());
    const auto broken = [&](auto&& breaking) {
        epoch_plan states = good;
        breaking(states);
        return complaint(states, 6, 3);
    };
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != text.npos; };
    CHECK(has(broken([](epoch_plan& p) { p.pop_back(); }), "never trains edge bucket"));
    CHECK(has(broken([](epoch_plan& p) { p[2].edge_buckets.push_back(p[2].edge_buckets[0]); }),
        "state 2 of the plan: edge bucket"));
    CHECK(has(broken([](epoch_plan& p) { p[2].edge_buckets.push_back(p[2].edge_buckets[0]); }), "trained again"));
    CHECK(has(broken([](epoch_plan& p) { std::swap(p[1].resident[0], p[1].resident[1]); }), "state 1"));
    CHECK(has(broken([](epoch_plan& p) { p[1].resident[1] = p[1].resident[0]; }), "do not ascend"));
    CHECK(has(broken([](epoch_plan& p) { p[1].resident = {0, 1, 2, 3}; }), "4 partitions in a buffer of 3"));
    CHECK(has(broken([](epoch_plan& p) { p[1].resident = {0, 1, 6}; }), "partition 6 of 6"));
    CHECK(has(broken([](epoch_plan& p) { p[3].resident.clear(); }), "no partition is resident"));
    CHECK(has(complaint({{{0, 1}, {{0, 2}}}}, 3, 2), "edge bucket (0, 2) needs partition 2, which is not resident"));
    CHECK(has(complaint({}, 2, 2), "one of 4 missing"));
}

TEST_CASE("a state without an edge bucket is legal") {
    CHECK(complaint({{{0}, {{0, 0}}}, {{1}, {}}, {{0, 1}, {{0, 1}, {1, 0}, {1, 1}}}}, 2, 2).empty());
}

} // namespace test_order_validate
