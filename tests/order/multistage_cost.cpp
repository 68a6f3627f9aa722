#include <gneiss/order/multistage_cost.hpp>

#include <doctest/doctest.h>

namespace test_order_multistage_cost {

using namespace gneiss;

TEST_CASE("costs of one and two stages equal hand-computed ones, and so does the ratio if the high tier is free") {
    const multistage_cost of{
        .batch = 1000, .miss_ratio = .25, .staged_batch = 600, .macro_batch = 10000, .batches_of_it = 50};
    const memory_tiers at{.low = 100, .high = 1000};
    CHECK(of.single(at) == doctest::Approx(.75 + 2.5));
    CHECK(of.staged(at) == doctest::Approx(.6 + 2));
    CHECK(of.ratio() == doctest::Approx(.8));
    const memory_tiers fast{.low = 100, .high = 1e12};
    CHECK(of.staged(fast) / of.single(fast) == doctest::Approx(of.ratio()));
}

TEST_CASE("macro_batch_bytes leaves room for two macro-batches, hubs and stages, or returns 0") {
    CHECK(macro_batch_bytes(1000, 100, 300) == 300);
    CHECK(macro_batch_bytes(1000, 1000, 1) == 0);
    CHECK(macro_batch_bytes(1000, 100, 2000) == 0);
    CHECK(macro_batch_bytes(0, 1, 1) == 0);
}

} // namespace test_order_multistage_cost
