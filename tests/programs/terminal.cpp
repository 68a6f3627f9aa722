// A trainer on terminals of several widths: what stands on the screen while it runs, at its end, and after Ctrl-C.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/program.hpp"
#include "support/pseudo_terminal.hpp"

namespace test_programs_terminal {

namespace {

/// The screen of a terminal that obeys \r, \n, colors, and "erase to the end of the line".
class display {
public:
    void write(const std::string& text) {
        for (const char c : text) {
            if (!escape_.empty()) {
                escape_ += c;
                if ((c < 'A' || c > 'Z') && (c < 'a' || c > 'z')) continue;
                if (escape_ == "\x1b[K") lines_.back().resize(std::min(lines_.back().size(), column_));
                escape_.clear();
            } else if (c == '\x1b') {
                escape_ = c;
            } else if (c == '\r') {
                note();
                column_ = 0;
            } else if (c == '\n') {
                note();
                lines_.emplace_back();
                column_ = 0;
            } else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) { // one column a character
                lines_.back().resize(std::max(lines_.back().size(), column_ + 1), ' ');
                lines_.back()[column_++] = c;
            }
        }
    }
    /// Returns the lines that were rewritten, as they were.
    [[nodiscard]] const std::vector<std::string>& live() const { return live_; }
    [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
    [[nodiscard]] bool shows(const std::string& text) const {
        return std::ranges::any_of(lines_, [&](const std::string& line) { return line.find(text) != line.npos; });
    }

private:
    void note() {
        if (lines_.back().find("ETA ") != std::string::npos) live_.push_back(lines_.back());
    }

    std::size_t column_ = 0;
    std::vector<std::string> lines_{1}, live_;
    std::string escape_;
};

struct shown {
    display screen;
    int code = -1;
};

/// Runs a program of `shop` on a terminal; sends SIGINT once a live line shows that it trains, if `interrupts`.
shown run_on_terminal(
    const gneiss::test::workshop& shop, std::size_t width, const std::string& command, bool interrupts) {
    const gneiss::test::pseudo_terminal terminal;
    winsize size{};
    size.ws_col = static_cast<unsigned short>(width);
    size.ws_row = 25;
    REQUIRE(::ioctl(terminal.descriptor(), TIOCSWINSZ, &size) == 0);
    const std::string line =
        "cd '" + shop.path().string() + "' && exec env TERM=xterm '" GNEISS_PROGRAMS_DIR "/" + command;
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::dup2(terminal.descriptor(), STDOUT_FILENO);
        ::dup2(terminal.descriptor(), STDERR_FILENO);
        ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
        ::_exit(127);
    }
    shown result;
    for (int status = 0;;) {
        const bool ended = ::waitpid(child, &status, WNOHANG) == child;
        result.screen.write(terminal.text());
        if (ended) {
            result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
            return result;
        }
        if (interrupts && result.screen.lines().back().find("loss ") != std::string::npos) {
            interrupts = false;
            result.screen.write("^C"); // as a terminal echoes it
            ::kill(child, SIGINT);
        }
        ::usleep(2000);
    }
}

} // namespace

TEST_CASE("a live line fits 40, 50, 80 and 200 columns, with the most important fields whole, and leaves no trace") {
    const gneiss::test::workshop shop("gneiss-marius");
    shop.succeed("generate rmat --nodes 4000 --edges 60000 --task link --train-fraction .9 --out data", "gneiss-data");
    for (const std::size_t width : {40U, 50U, 80U, 200U}) {
        CAPTURE(width);
        const auto [screen, code] = run_on_terminal(
            shop, width, "gneiss-marius' train data --dim 32 --epochs 2 --memory 512MiB --force --out run", false);
        CHECK(code == 0);
        bool loss = false;
        REQUIRE_FALSE(screen.live().empty());
        for (const std::string& line : screen.live()) {
            CHECK_MESSAGE(line.size() < width, line);
            CHECK_MESSAGE(line.find("%  ETA ") != std::string::npos, line);
            if (line.find("loss ") == std::string::npos) continue;
            loss = true;
            if (width >= 50) CHECK_MESSAGE(line.find("  epoch ") != std::string::npos, line);
            if (width >= 80) CHECK_MESSAGE(line.find(" edges/s") != std::string::npos, line);
            if (width >= 200) CHECK_MESSAGE(line.find("  RSS ") != std::string::npos, line);
        }
        CHECK(loss);
        CHECK_FALSE(screen.shows("ETA "));
        CHECK(screen.shows("MRR"));
    }
}

TEST_CASE("after Ctrl-C nothing of the live line is left on the screen") {
    const gneiss::test::workshop shop("gneiss-marius");
    shop.succeed("generate rmat --nodes 4000 --edges 60000 --task link --train-fraction .9 --out data", "gneiss-data");
    const auto [screen, code] = run_on_terminal(
        shop, 80, "gneiss-marius' train data --dim 32 --epochs 1000 --early-stop 0 --no-eval --out run", true);
    CHECK(code == 130);
    CHECK(screen.shows("interrupted: the state is in run; --resume --out run continues"));
    CHECK_FALSE(screen.shows("ETA "));
    CHECK_FALSE(screen.shows("^C"));
    const auto [verified, stopped] = run_on_terminal(shop, 80, "gneiss-data' verify data", false);
    CHECK(stopped == 0);
    CHECK_FALSE(verified.shows("verify  "));
}

} // namespace test_programs_terminal
