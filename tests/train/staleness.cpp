#include <gneiss/train/staleness.hpp>

#include <doctest/doctest.h>

namespace test_train_staleness {

using namespace gneiss;

TEST_CASE("quantiles follow from a staleness histogram") {
    staleness_histogram h;
    CHECK(h.quantile(0.5) == 0);
    CHECK(h.max() == 0);
    h.add(0, 6);
    h.add(3, 3);
    h.add(100000); // the last bin
    CHECK(h.quantile(0.5) == 0);
    CHECK(h.quantile(0.9) == 3);
    CHECK(h.max() == staleness_histogram::bins - 1);
    staleness_histogram twice = h;
    twice += h;
    CHECK(twice.total() == 20);
    CHECK(twice.quantile(0.9) == 3);
}

} // namespace test_train_staleness
