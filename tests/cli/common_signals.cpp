#include "common/signals.hpp"

#include <doctest/doctest.h>

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <stdexcept>
#include <system_error>

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
    for (const int signal : {SIGINT, SIGTERM}) {
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

TEST_CASE("without a guard, SIGTERM ends the program at once with 130") {
    check_exits_with_130([] {
        exit_at_termination();
        { const interrupt_guard guard; }
        std::raise(SIGTERM);
    });
}

TEST_CASE("the second signal ends the program at once with 130") {
    check_exits_with_130([] {
        ::close(STDERR_FILENO);
        const interrupt_guard guard;
        std::raise(SIGINT);
        std::raise(SIGINT);
    });
}

} // namespace test_cli_common_signals
