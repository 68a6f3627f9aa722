#include "kit/cli/exit_codes.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <sstream>
#include <system_error>

#include <sys/resource.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

#include "support/pseudo_terminal.hpp"

namespace test_cli_common_exit_codes {

using namespace programs;
using gneiss::errc;

namespace {

template <class Error>
failure describe(const Error& error) {
    try {
        throw error; // NOLINT(cert-err60-cpp): as the library throws it
    } catch (...) {
        return describe_current_exception();
    }
}

} // namespace

TEST_CASE("each kind of exception has the exit code of the contract") {
    CHECK(describe(usage_error("x")).code == exit_code::usage);
    CHECK(describe(gneiss::error(errc::already_exists, "x")).code == exit_code::usage);
    CHECK(describe(gneiss::error(errc::config_mismatch, "x")).code == exit_code::usage);
    CHECK(describe(gneiss::error(errc::invalid_argument, "x")).code == exit_code::usage);
    CHECK(describe(gneiss::error(errc::invalid_argument, "x", {.path = "f"})).code == exit_code::failed);
    CHECK(describe(gneiss::error(errc::invalid_format, "x", {.path = "f"})).code == exit_code::failed);
    CHECK(describe(gneiss::error(errc::not_found, "x")).code == exit_code::failed);
    CHECK(describe(gneiss::io_error(ENOENT, "open", {.path = "f"})).code == exit_code::failed);
    CHECK(describe(gneiss::io_error(ENOSPC, "write", {.path = "f"})).code == exit_code::refused);
    CHECK(describe(std::system_error(ENOSPC, std::generic_category())).code == exit_code::refused);
    CHECK(describe(std::filesystem::filesystem_error("x", "f", std::make_error_code(std::errc::no_space_on_device)))
              .code == exit_code::refused);
    CHECK(describe(gneiss::io_error(EFBIG, "write", {.path = "f"})).code == exit_code::refused);
    CHECK(describe(gneiss::over_budget(10, {{"rows", 20}})).code == exit_code::refused);
    CHECK(describe(gneiss::error(errc::no_space, "x")).code == exit_code::refused);
    CHECK(describe(std::bad_alloc()).code == exit_code::refused);
    CHECK(describe(gneiss::error(errc::canceled, "x")).code == exit_code::interrupted);
    CHECK(describe(std::logic_error("x")).code == exit_code::failed);
    CHECK(describe(42).code == exit_code::failed);
}

TEST_CASE("a file beyond the limit of its size is reported with the limit and how to raise it") {
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit small{.rlim_cur = 8192, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string text = describe(gneiss::io_error(EFBIG, "write", {.path = "some/file"})).message;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    for (const char* part : {"some/file", "8.00 KiB", "ulimit -f", "--resume"})
        CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("a refused thread is reported as such, although the exception says only that something is unavailable") {
    const failure refused = describe(std::system_error(EAGAIN, std::generic_category()));
    CHECK(refused.code == exit_code::failed);
    CHECK(refused.message.find("thread") != std::string::npos);
    CHECK(describe(gneiss::io_error(EAGAIN, "read", {.path = "f"})).message.find("thread") == std::string::npos);
}

TEST_CASE("a refused budget is reported with its numbers") {
    const std::string text = describe(gneiss::over_budget(1 << 20, {{"rows", 2 << 20}, {"queues", 4096}})).message;
    for (const char* part : {"2.00 MiB", "1.00 MiB", "rows", "queues", "4.00 KiB"})
        CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

TEST_CASE("a message is one line whatever the exception says") {
    CHECK(describe(std::runtime_error("one\n  two\r\nthree\n")).message == "one   two three");
    CHECK(describe(std::runtime_error("")).message == "an error without a description");
    CHECK(one_line("a\tb\n") == "a b");
}

TEST_CASE("the program returns the exit code that its body returns or throws") {
    CHECK(run_program([] { return exit_code::done; }) == 0);
    CHECK(run_program([] { return exit_code::interrupted; }) == 130);
    CHECK(run_program([]() -> exit_code { throw usage_error("thrown by the test of exit codes"); }) == 2);
}

TEST_CASE("an error is red on a terminal, and plain with NO_COLOR") {
    const auto shown = [](const char* no_color) {
        const gneiss::test::environment_variable setting("NO_COLOR", no_color), term("TERM", "xterm");
        gneiss::test::pseudo_terminal terminal;
        const gneiss::test::redirected_stderr to(terminal.descriptor());
        CHECK(run_program([]() -> exit_code { throw usage_error("wrong"); }) == 2);
        return terminal.text();
    };
    CHECK(shown(nullptr) == "\x1b[1;31merror:\x1b[0m wrong\n");
    CHECK(shown("1") == "error: wrong\n");
}

} // namespace test_cli_common_exit_codes
