#include <gneiss/order/parse.hpp>

#include <gneiss/order/grid_walks.hpp>

#include <doctest/doctest.h>

#include <string>

namespace test_order_parse {

using namespace gneiss;

namespace {

error refusal(std::string_view text, std::uint32_t partitions = 2) {
    try {
        (void)parse_buckets(text, partitions, "order.txt");
    } catch (const error& e) {
        return e;
    }
    FAIL("accepted: " << std::string(text));
    return {errc::io, ""};
}

} // namespace

TEST_CASE("a written order survives the round trip, with comments, blank lines, commas and CRLF") {
    const std::vector<edge_bucket> buckets = hilbert_buckets(5);
    std::string text = "# a curve\n\n";
    for (const auto& [i, j] : buckets)
        text.append(" ")
            .append(std::to_string(i))
            .append(i % 2 ? "\t" : ", ")
            .append(std::to_string(j))
            .append(" # x\r\n");
    CHECK(parse_buckets(text, 5) == buckets);
    text.erase(text.size() - 1); // no newline at the end
    CHECK(parse_buckets(text, 5) == buckets);
    CHECK(parse_buckets("0,0", 1) == std::vector<edge_bucket>{{0, 0}});
}

TEST_CASE("a bad line is one error that names line and column") {
    const auto at = [](const error& e) { return std::pair(e.place().line, e.place().column); };
    const error word = refusal("0 0\n0 x\n");
    CHECK(word.code() == errc::invalid_format);
    CHECK(at(word) == std::pair<std::uint64_t, std::uint64_t>{2, 3});
    CHECK(std::string(word.what()) == "order.txt: line 2, column 3: 'x' is not a partition number");
    for (const char* text : {"0 -1", "0 1.5", "0", "0 1 1", "0 1x", ",0 1", "0 ; 1", "0,,"})
        CHECK_MESSAGE(refusal(text).code() == errc::invalid_format, text);
    for (const char* text : {"0 2", "7 0", "0 4294967296", "99999999999999999999 0"})
        CHECK_MESSAGE(refusal(text).code() == errc::out_of_range, text);
    const error again = refusal("0 0\n0 1\n0 0\n");
    CHECK(again.place().line == 3);
    CHECK(std::string(again.what()).find("after line 1") != std::string::npos);
}

TEST_CASE("a list that omits a bucket is refused and names it") {
    const error missing = refusal("0 0\n0 1\n1 1\n");
    CHECK(missing.code() == errc::invalid_argument);
    CHECK(missing.place().line == 0);
    CHECK(std::string(missing.what()).find("(1, 0) is missing, one of 1") != std::string::npos);
    CHECK(refusal("").code() == errc::invalid_argument);
}

} // namespace test_order_parse
