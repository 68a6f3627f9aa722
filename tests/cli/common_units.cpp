#include "kit/cli/units.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "kit/cli/exit_codes.hpp"

namespace test_cli_common_units {

using namespace programs;

TEST_CASE("sizes accept the units of the contract, fractions and blanks") {
    CHECK(parse_size("0").bytes == 0);
    CHECK(parse_size("4096").bytes == 4096);
    CHECK(parse_size("7B").bytes == 7);
    CHECK(parse_size("3KiB").bytes == 3 * 1024);
    CHECK(parse_size("512 MiB").bytes == 512ULL << 20);
    CHECK(parse_size("1.5GiB").bytes == 3ULL << 29);
    CHECK(parse_size(" .25TiB ").bytes == 1ULL << 38);
    CHECK(parse_size("2KB").bytes == 2000);
    CHECK(parse_size("2.5mb").bytes == 2'500'000);
    CHECK(parse_size("1GB").bytes == 1'000'000'000);
    CHECK(parse_size("300M").bytes == 300ULL << 20);
    CHECK(parse_size("2G").bytes == 2ULL << 30);
    CHECK(parse_size("1.5g").bytes == 3ULL << 29);
    CHECK(parse_size("8 k").bytes == 8192);
    CHECK(parse_size("1T").bytes == 1ULL << 40);
    CHECK(parse_size("1TB").bytes == 1'000'000'000'000);
    CHECK(parse_size("18446744073709551615").bytes == std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("malformed and too large sizes are usage errors") {
    for (const char* text : {"", "GiB", "-1GiB", "+1GiB", "1 2", "1Gi", "1GiBs", "1e3MiB", "nan", "inf", "0x10",
             "1,5GiB", ".", ". GiB", "18446744073709551616", "16777216TiB", "1.0.0GiB", "99999999999999999999999999B"})
        CHECK_THROWS_AS_MESSAGE((void)parse_size(text), usage_error, text);
}

TEST_CASE("a size printed as a flag reads back unchanged") {
    std::mt19937_64 random(1);
    for (int i = 0; i < 1000; ++i) {
        const byte_size size{random() >> random() % 64};
        CHECK(parse_size(to_flag(size)) == size);
    }
    CHECK(to_flag(byte_size{3ULL << 29}) == "1536MiB");
    CHECK(to_flag(byte_size{}) == "0B");
}

TEST_CASE("intervals are durations, epochs or never") {
    CHECK(parse_interval("30s") == interval{.seconds = 30});
    CHECK(parse_interval("5m") == interval{.seconds = 300});
    CHECK(parse_interval("1.5h") == interval{.seconds = 5400});
    CHECK(parse_interval("1epoch") == interval{.epochs = 1});
    CHECK(parse_interval("3 epochs") == interval{.epochs = 3});
    CHECK(parse_interval("never").never());
    for (const char* text :
        {"", "5", "m", "-5m", "0s", "0epoch", "epoch", "1.5epoch", "5min", "1e9h", "99999999999999h"})
        CHECK_THROWS_AS_MESSAGE((void)parse_interval(text), usage_error, text);
    for (const char* text :
        {"30s", "5m", "2h", "90s", "1epoch", "7epochs", "never", "0.5s", "0.00001s", "0.3333333333333333333s"})
        CHECK(parse_interval(to_flag(parse_interval(text))) == parse_interval(text));
    CHECK(to_flag(parse_interval("60s")) == "1m");
}

TEST_CASE("counts, all, shares and numbers refuse ambiguous text") {
    CHECK(parse_count_or_all("all").all);
    CHECK(parse_count_or_all("12") == count_or_all{.count = 12});
    CHECK(parse_count_or_all("all").of(7) == 7);
    CHECK(parse_count_or_all("12").of(7) == 7);
    CHECK(parse_count_or_percent("5%").of(1000) == 50);
    CHECK(parse_count_or_percent("5").of(1000) == 5);
    CHECK(parse_number(".05") == 0.05);
    CHECK(parse_number("-1e-3") == -1e-3);
    CHECK(parse_bool("true"));
    CHECK_FALSE(parse_bool("off"));
    for (const char* text : {"", "-1", "1.5", "1e3", "al", "12x", "18446744073709551616"}) {
        CHECK_THROWS_AS_MESSAGE((void)parse_count_or_all(text), usage_error, text);
        CHECK_THROWS_AS_MESSAGE((void)parse_count(text), usage_error, text);
    }
    for (const char* text : {"", "nan", "inf", "1e999", "0.1.2", "one"})
        CHECK_THROWS_AS((void)parse_number(text), usage_error);
    for (const char* text : {"101%", "-1%", "%"}) CHECK_THROWS_AS((void)parse_count_or_percent(text), usage_error);
}

TEST_CASE("lists have no empty elements") {
    CHECK(split_list("10, 10,5") == std::vector<std::string>{"10", "10", "5"});
    CHECK(split_list("").empty());
    CHECK(split_list("a, \"b, c\" ,\"d \"\"e\"\"\",f\"g") == std::vector<std::string>{"a", "b, c", "d \"e\"", "f\"g"});
    for (const char* text : {"\"", "a,\"b", "\"a\"b", "\"\"", "a,\"b\"\""})
        CHECK_THROWS_AS((void)split_list(text), usage_error);
    for (const char* text : {",", "1,", ",1", "1,,2"}) CHECK_THROWS_AS((void)split_list(text), usage_error);
}

TEST_CASE("printed numbers have three digits and never four before a unit") {
    CHECK(human_count(0) == "0");
    CHECK(human_count(999) == "999");
    CHECK(human_count(1234) == "1.23 k");
    CHECK(human_count(999'600) == "1.00 M");
    CHECK(human_count(45'600'000) == "45.6 M");
    CHECK(human_bytes(1.5 * (1 << 30)) == "1.50 GiB");
    CHECK(human_bandwidth(240.0 * (1 << 20)) == "240 MiB/s");
    CHECK(human_rate(1.2e6, "edges") == "1.20 M edges/s");
    CHECK(human_seconds(0.0123) == "12 ms");
    CHECK(human_seconds(12.34) == "12.3 s");
    CHECK(human_seconds(59.99) == "1m 00s");
    CHECK(human_seconds(3600 + 7 * 60) == "1h 07m");
    CHECK(human_seconds(90'000) == "1d 01h");
    CHECK(human_percent(0.1234) == "12.3%");
}

TEST_CASE("the remaining time is proportional, and unknown before the first unit is done") {
    CHECK(human_eta(0, 10, 5) == "--");
    CHECK(human_eta(5, 10, 30) == "30.0 s");
    CHECK(human_eta(10, 10, 30) == "0 ms");
}

} // namespace test_cli_common_units
