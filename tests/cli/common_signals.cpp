#include "kit/cli/signals.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/refused_threads.hpp"

namespace test_cli_common_signals {

using namespace programs;

namespace {

/// Blocks until `token` is stopped, on a stop callback that locks: callbacks run outside the signal handler.
void wait_for(const std::stop_token& token) {
    std::mutex mutex;
    std::condition_variable_any stopped;
    std::unique_lock lock(mutex);
    stopped.wait(lock, token, [] { return false; });
}

/// Checks that a process that runs `body` exits with 130 before its end.
template <class Body>
void check_exits_with_130(Body&& body) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        body();
        ::_exit(7);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 130);
}

} // namespace

TEST_CASE("the first signal requests a stop, and each guard starts with a new token") {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        const interrupt_guard guard;
        CHECK_FALSE(guard.interrupted());
        std::raise(signal);
        wait_for(guard.token());
        CHECK(guard.interrupted());
    }
}

TEST_CASE("a guard whose thread is refused leaves no trace: the next one works") {
    {
        const gneiss::test::grant_threads none(0);
        CHECK_THROWS_AS(interrupt_guard{}, std::system_error);
    }
    const interrupt_guard guard;
    std::raise(SIGINT);
    wait_for(guard.token());
    CHECK(guard.interrupted());
}

TEST_CASE("two guards at once are an error") {
    const interrupt_guard guard;
    CHECK_THROWS_AS(interrupt_guard(), std::logic_error);
}

TEST_CASE("without a guard, each of the signals ends the program at once with 130") {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        check_exits_with_130([signal] {
            exit_at_termination();
            {
                const interrupt_guard guard;
            }
            std::raise(signal);
        });
}

TEST_CASE("SIGHUP stays ignored under nohup") {
    const auto before = std::signal(SIGHUP, SIG_IGN);
    exit_at_termination();
    {
        const interrupt_guard guard;
        std::raise(SIGHUP);
        CHECK_FALSE(guard.interrupted());
    }
    std::raise(SIGHUP);
    CHECK((std::signal(SIGHUP, before) == SIG_IGN));
}

TEST_CASE("writes to a closed pipe and beyond the limit of a file's size fail, and programs that are started have the "
          "usual signals") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        report_failed_writes();
        int ends[2];
        bool right = ::pipe(ends) == 0 && ::close(ends[0]) == 0 && ::write(ends[1], "x", 1) == -1 && errno == EPIPE;
        const rlimit small{.rlim_cur = 4, .rlim_max = RLIM_INFINITY};
        std::FILE* const file = std::tmpfile();
        right = right && file != nullptr && ::setrlimit(RLIMIT_FSIZE, &small) == 0 &&
            ::write(::fileno(file), "four", 4) == 4 && ::write(::fileno(file), "x", 1) == -1 && errno == EFBIG;
        ::_exit(right && std::system("sh -c 'kill -PIPE $$'") != 0 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("closed standard streams are not taken by files: standard output fails, standard error is discarded") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        for (const int stream : {0, 1, 2}) ::close(stream);
        open_standard_streams();
        const bool right = ::open("/dev/null", O_RDWR) > 2 && ::write(1, "x", 1) == -1 && ::write(2, "x", 1) == 1;
        ::_exit(right ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a second signal ends the program at once with 130, unless it comes with the first") {
    check_exits_with_130([] {
        ::close(STDERR_FILENO);
        const interrupt_guard guard;
        std::raise(SIGINT);
        std::raise(SIGTERM); // one interruption with the first
        ::usleep(600'000);
        std::raise(SIGINT);
    });
    const interrupt_guard guard;
    std::raise(SIGINT);
    std::raise(SIGINT);
    wait_for(guard.token());
    CHECK(guard.interrupted());
}

} // namespace test_cli_common_signals
