#include <gneiss/order/to_string.hpp>

#include <gneiss/order/beta.hpp>

#include <doctest/doctest.h>

#include <algorithm>

namespace test_order_to_string {

using namespace gneiss;

TEST_CASE("ranges of three or more partitions are abbreviated") {
    const auto text = [](std::vector<partition_id> p) { return to_string(p); };
    CHECK(text({}) == "");
    CHECK(text({4}) == "4");
    CHECK(text({0, 1, 3}) == "0 1 3");
    CHECK(text({0, 1, 2, 3, 7, 8, 10, 11, 12}) == "0-3 7 8 10-12");
}

TEST_CASE("a plan is a table with one line per state") {
    CHECK(to_string(beta_order(4, 3, 0, beta_options::fixed())(0), {.buckets = 5}) ==
        "state  resident  load  buckets\n"
        "    0  0-2       0-2         9  (0,0) (0,1) (0,2) (1,0) (1,1) …\n"
        "    1  0 1 3     3           5  (0,3) (1,3) (3,0) (3,1) (3,3)\n"
        "    2  1-3       2           2  (2,3) (3,2)\n");
}

TEST_CASE("long plans are truncated and the omitted states counted") {
    const epoch_plan states = beta_order(32, 8)(0);
    const std::string text = to_string(states, {.states = 3, .buckets = 0});
    CHECK(std::ranges::count(text, '\n') == 5);
    CHECK(text.find("and " + std::to_string(states.size() - 3) + " more states") != text.npos);
}

} // namespace test_order_to_string
