#include "kit/cli/terminal.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include <unistd.h>

#include "support/pseudo_terminal.hpp"

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
        CHECK(s.text.substr(0, 23) == "\r\x1b[Ka line that is long");
        CHECK(s.text.find('\n') == std::string::npos);
        s.now += 1;
        s.text.clear();
        p.update([] { return "short"; });
        CHECK(s.text == "\r\x1b[Kshort");
        CHECK(shows_live_line());
        s.text.clear();
        p.say("kept");
        CHECK(s.text == "\r\x1b[Kkept\n\r\x1b[Kshort");
        s.text.clear();
    }
    CHECK(s.text == "\r\x1b[K");
    CHECK_FALSE(shows_live_line());
}

TEST_CASE("a live line is removed before anything else is printed") {
    const gneiss::test::pseudo_terminal terminal;
    const gneiss::test::redirected_stderr to(terminal.descriptor());
    stage s;
    progress p(s.output(true));
    const auto show = [&] {
        s.now += 1;
        p.update([] { return "live"; });
        s.text.clear();
        REQUIRE(shows_live_line());
    };
    const auto removed = [&] { return s.text == "\r\x1b[K" && !shows_live_line(); };
    show();
    print_note("a note");
    CHECK(removed());
    show();
    print_warning("of something");
    CHECK(removed());
    show();
    print_text("");
    CHECK(removed());
    show();
    p.clear();
    CHECK(removed());
    CHECK(terminal.text().find("a note\n") != std::string::npos);
}

TEST_CASE("a narrow terminal has the first fields of a line, whole") {
    const std::string line =
        "12.3%  ETA 3m 05s  loss 0.4321  epoch 3/10  7.32 k edges/s  wait 0.5%  RSS 1.00 GiB of 2.00 GiB";
    CHECK(fitted(line, 200) == line);
    CHECK(fitted(line, 79) == "12.3%  ETA 3m 05s  loss 0.4321  epoch 3/10  7.32 k edges/s  wait 0.5%");
    CHECK(fitted(line, 49) == "12.3%  ETA 3m 05s  loss 0.4321  epoch 3/10");
    CHECK(fitted(line, 39) == "12.3%  ETA 3m 05s  loss 0.4321");
    CHECK(fitted("a long first field  b", 8) == "a long f");
    CHECK(fitted("a  a field that is too long  b", 8) == "a  b");
    CHECK(fitted("", 8).empty());
}

TEST_CASE("without a terminal a line is printed every ten seconds") {
    stage s;
    progress p(s.output(false));
    for (int i = 0; i < 250; ++i, s.now += 0.1) p.update([] { return "line"; });
    CHECK(s.text == "line\nline\n");
    p.say("talk");
    CHECK(s.text == "line\nline\ntalk\n");
}

TEST_CASE("a warning has a color if the output has") {
    for (const bool color : {false, true}) {
        stage s;
        auto output = s.output(false);
        output.color = color;
        progress p(output);
        p.warn("text");
        CHECK(s.text == (color ? "\x1b[1;33mwarning:\x1b[0m text\n" : "warning: text\n"));
    }
    CHECK(styled(text_style::heading, "t", false) == "t");
    CHECK(styled(text_style::heading, "t", true) == "\x1b[1mt\x1b[0m");
}

TEST_CASE("a quiet program gives its warnings, and keeps each text once") {
    stage s;
    progress p(s.output(false, true));
    p.say("talk");
    for (int i = 0; i < 2; ++i) p.warn("columns were guessed");
    CHECK(s.text == "warning: columns were guessed\nwarning: columns were guessed\n");
    CHECK(std::ranges::count(given_warnings(), "columns were guessed") == 1);
}

TEST_CASE(
    "text of a file cannot control the terminal: controls, direction marks and bytes that are not UTF-8 are escaped") {
    CHECK(visible("x\x1b]0;t\x07\x1b[31m") == "x\\x1b]0;t\\x07\\x1b[31m");
    CHECK(visible("a\tb\nc\r\x7f") == "a\\x09b\\x0ac\\x0d\\x7f");
    CHECK(visible("a\tb\nc", "\t\n") == "a\tb\nc");
    CHECK(visible("h\xc2\x9b[31m") == "h\\x9b[31m");                       // U+009B, CSI
    CHECK(visible("\x9b[31m\xff\xc2") == "\\x9b[31m\\xff\\xc2");           // bytes that are not UTF-8
    CHECK(visible("\xc0\xaf\xed\xa0\x80") == "\\xc0\\xaf\\xed\\xa0\\x80"); // overlong; a surrogate
    CHECK(visible("a\u202eb\u2066c\u200fd\u061ce\u2028f") == "a\\u202eb\\u2066c\\u200fd\\u061ce\\u2028f");
    for (const std::string text : {"Zürich Åsa 李 … – 🪨", "\\x1b", ""}) CHECK(visible(text) == text);
    stage s;
    progress p(s.output(true));
    p.say("a\x1b[2Jb");
    p.warn("c\x1b[2Jd");
    p.update([] { return "e\x1b[2J\nf"; });
    CHECK(s.text == "a\\x1b[2Jb\nwarning: c\\x1b[2Jd\n\r\x1b[Ke\\x1b[2J\\x0af");
    table names({{"name", align::left}, {"n"}});
    names.add({"x\x1b[31m", "1"});
    CHECK(names.str() == "name       n\n---------  -\nx\\x1b[31m  1\n");
}

TEST_CASE("a terminal shows colors unless NO_COLOR has a value or TERM is dumb; a file never does") {
    const gneiss::test::pseudo_terminal terminal;
    const gneiss::test::environment_variable no_color("NO_COLOR", nullptr), term("TERM", "xterm");
    CHECK(shows_color(terminal.descriptor()));
    {
        const gneiss::test::environment_variable set("NO_COLOR", "1");
        CHECK_FALSE(shows_color(terminal.descriptor()));
    }
    {
        const gneiss::test::environment_variable empty("NO_COLOR", "");
        CHECK(shows_color(terminal.descriptor()));
    }
    {
        const gneiss::test::environment_variable dumb("TERM", "dumb");
        CHECK_FALSE(shows_color(terminal.descriptor()));
    }
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    CHECK_FALSE(shows_color(ends[1]));
    ::close(ends[0]);
    ::close(ends[1]);
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
