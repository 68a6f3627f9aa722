#include <gneiss/sample/fanout.hpp>

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

namespace test_sample_fanout {

using namespace gneiss;

TEST_CASE("fan-outs survive the round trip") {
    using hops = std::vector<hop_fanout>;
    CHECK(parse_fanout("30,20,10") == hops{{.in = 30}, {.in = 20}, {.in = 10}});
    CHECK(parse_fanout("5", neighbor_direction::out) == hops{{.out = 5}});
    CHECK(parse_fanout("5,all", neighbor_direction::both) == hops{{.both = 5}, {.both = all_neighbors}});
    CHECK(parse_fanout("10+20,all+1", neighbor_direction::both) ==
        hops{{.in = 10, .out = 20}, {.in = all_neighbors, .out = 1}});
    for (const char* text : {"30,20,10", "all", "10+20,all+all,7"})
        for (const auto d : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both})
            CHECK(to_string(parse_fanout(text, d)) == text);
    CHECK(parse_fanout("3")[0].direction() == neighbor_direction::in);
    CHECK(parse_fanout("0+3")[0].direction() == neighbor_direction::out);
    CHECK(parse_fanout("1+3")[0].direction() == neighbor_direction::both);
}

TEST_CASE("an invalid fan-out is refused with its text") {
    for (const char* text : {"", ",", "10,", ",10", "x", "10;10", "-1", "0", "0+0", "10+", "+10", "1+2+3", "1 0",
             "4294967295", "99999999999", "ALL"}) {
        CAPTURE(text);
        try {
            (void)parse_fanout(text);
            FAIL("was read");
        } catch (const error& e) {
            CHECK(e.code() == errc::invalid_argument);
            CHECK(std::string(e.what()).find("'" + std::string(text) + "'") != std::string::npos);
            if (std::string_view(text) == "-1") CHECK(std::string(e.what()).find("'all'") != std::string::npos);
        }
    }
}

TEST_CASE("each layer needs a valid hop") {
    CHECK_NOTHROW(validate(parse_fanout("10,5"), 2));
    CHECK_THROWS_WITH_AS(validate(parse_fanout("10,5"), 3), "fan-out 10,5 has 2 hops, the model has 3 layers", error);
    CHECK_THROWS_AS(validate({{.in = 1, .both = 1}}, 1), error);
    CHECK_THROWS_AS(validate({{}}, 1), error);
}

} // namespace test_sample_fanout
