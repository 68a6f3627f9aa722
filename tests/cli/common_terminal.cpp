#include "common/terminal.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

namespace test_cli_common_terminal {

using namespace programs;

namespace {

/// Screen and clock of a test.
struct stage {
    std::string text;
    double now = 100;
    unsigned width = 20;

    progress_output output(bool live, bool quiet = false) {
        return {.quiet = quiet,
            .live = live,
            .width = [this] { return width; },
            .write = [this](std::string_view piece) { text += piece; },
            .clock = [this] { return now; }};
    }
};

} // namespace

TEST_CASE("a live line is rewritten at most five times a second and never wraps") {
    stage s;
    int asked = 0;
    {
        progress p(s.output(true));
        for (int i = 0; i < 1000; ++i, s.now += 0.001)
            p.update([&] { return ++asked, std::string("a line that is longer than the screen"); });
        CHECK(asked == 5);
        CHECK(s.text.substr(0, 20) == "\ra line that is long");
        CHECK(s.text.find('\n') == std::string::npos);
        s.now += 1;
        s.text.clear();
        p.update([] { return "short"; });
        CHECK(s.text == "\rshort" + std::string(14, ' '));
        s.text.clear();
        p.say("kept");
        CHECK(s.text == "\r     \rkept\nshort");
        s.text.clear();
    }
    CHECK(s.text == "\r     \r");
}

TEST_CASE("without a terminal a line is printed every ten seconds") {
    stage s;
    progress p(s.output(false));
    for (int i = 0; i < 250; ++i, s.now += 0.1) p.update([] { return "line"; });
    CHECK(s.text == "line\nline\n");
    p.say("talk");
    CHECK(s.text == "line\nline\ntalk\n");
}

TEST_CASE("quiet mode prints nothing") {
    for (const bool live : {true, false}) {
        stage s;
        progress p(s.output(live, true));
        s.now += 100;
        p.update([] { return "line"; });
        p.say("talk");
        CHECK(s.text.empty());
    }
}

TEST_CASE("a text is cut between characters, never inside one") {
    CHECK(truncated("abc", 5) == "abc");
    CHECK(truncated("abc", 2) == "ab");
    CHECK(truncated("a\xc3\xa9z", 2) == "a\xc3\xa9");
    CHECK(truncated("", 0).empty());
}

TEST_CASE("a table aligns its columns and leaves no trailing blanks") {
    table t({{"stage", align::left}, {"seconds"}, {"note", align::left}});
    t.add({"compute", "12.3", "x"});
    t.add({"io", "4"});
    CHECK(t.str() == "stage    seconds  note\n-------  -------  ----\ncompute     12.3  x\nio             4\n");
    CHECK_THROWS_AS(t.add({"1", "2", "3", "4"}), std::invalid_argument);
}

} // namespace test_cli_common_terminal
