// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/signals.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <stdexcept>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <gneiss/core/error.hpp>

#include "kit/cli/command_call.hpp"
#include "kit/cli/terminal.hpp"

namespace programs {
namespace {

constexpr char stop_byte = 's', end_byte = 'e';

// The only state that the handler touches. Lock-free, hence async-signal-safe.
std::atomic<int> signal_pipe{-1};
std::atomic<std::int64_t> first_signal{0}; // in milliseconds of the monotonic clock; 0: none
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// Writes an error by a handler, in place of a live line. Async-signal-safe.
void write_last_words(std::string_view words) noexcept {
    const std::string_view before = shows_live_line() ? erase_line : "\n";
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, before.data(), before.size());
    written = ::write(STDERR_FILENO, words.data(), words.size());
}

/// Signals this close together are one: `timeout` and job schedulers send one to the process and one to its group.
constexpr std::int64_t one_interruption_ms = 500;

extern "C" void on_signal(int) {
    const int saved = errno;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::int64_t at = now.tv_sec * 1000 + now.tv_nsec / 1'000'000 + 1;
    std::int64_t first = 0;
    if (!first_signal.compare_exchange_strong(first, at)) {
        if (at - first < one_interruption_ms) {
            errno = saved;
            return;
        }
        write_last_words("error: interrupted twice: stopped at once, without saving\n");
        ::_exit(130);
    }
    [[maybe_unused]] const auto written = ::write(signal_pipe.load(), &stop_byte, 1);
    errno = saved;
}

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};

/// Sets the handler of a signal; one that only SIGHUP's owner, nohup, ignores stays ignored.
void handle(int signal, const struct sigaction& action, struct sigaction* before) noexcept {
    struct sigaction now{};
    ::sigaction(signal, nullptr, &now);
    if (before != nullptr) *before = now;
    if (signal == SIGHUP && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_IGN) return;
    ::sigaction(signal, &action, nullptr);
}

struct sigaction action_of(void (*handler)(int), int flags) noexcept {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigemptyset(&action.sa_mask);
    return action;
}

} // namespace

struct interrupt_guard::state {
    std::stop_source source;
    int ends[2] = {-1, -1};
    std::array<struct sigaction, stop_signals.size()> before{};
    std::thread watcher;
};

interrupt_guard::interrupt_guard() {
    if (const command_call* const call = command_call::current()) {
        token_ = call->stop();
        return;
    }
    state_ = std::make_unique<state>();
    token_ = state_->source.get_token();
    int* const ends = state_->ends;
    if (::pipe2(ends, O_CLOEXEC) != 0) throw gneiss::io_error(errno, "cannot create a pipe", {});
    int none = -1;
    if (!signal_pipe.compare_exchange_strong(none, ends[1])) {
        ::close(ends[0]);
        ::close(ends[1]);
        throw std::logic_error("two interrupt_guards at once");
    }
    first_signal = 0;
    try {
        state_->watcher = std::thread([ends, source = state_->source]() mutable {
            for (char byte = 0;;) {
                const auto got = ::read(ends[0], &byte, 1);
                if (got < 0 && errno == EINTR) continue;
                if (got != 1 || byte == end_byte) return;
                source.request_stop();
            }
        });
    } catch (...) {
        signal_pipe = -1;
        ::close(ends[0]);
        ::close(ends[1]);
        throw;
    }
    const struct sigaction action = action_of(on_signal, SA_RESTART);
    for (std::size_t i = 0; i < stop_signals.size(); ++i) handle(stop_signals[i], action, &state_->before[i]);
}

interrupt_guard::~interrupt_guard() {
    if (!state_) return;
    for (std::size_t i = 0; i < stop_signals.size(); ++i) ::sigaction(stop_signals[i], &state_->before[i], nullptr);
    while (::write(state_->ends[1], &end_byte, 1) < 0 && errno == EINTR) {
    }
    state_->watcher.join();
    signal_pipe = -1;
    ::close(state_->ends[0]);
    ::close(state_->ends[1]);
}

std::stop_token interrupt_guard::token() const noexcept { return token_; }

void exit_at_termination() noexcept {
    const struct sigaction action = action_of(
        [](int) {
            write_last_words("error: interrupted\n");
            ::_exit(130);
        },
        0);
    for (const int signal : stop_signals) handle(signal, action, nullptr);
}

void report_failed_writes() noexcept {
    // A handler, since programs that this process starts inherit ignored signals, but not handlers.
    const struct sigaction action = action_of([](int) {}, SA_RESTART);
    for (const int signal : {SIGPIPE, SIGXFSZ}) ::sigaction(signal, &action, nullptr);
}

void open_standard_streams() noexcept {
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(stream, F_GETFD) == -1 &&
            errno == EBADF) // the lowest closed one, hence the next that open() returns
            (void)::open("/dev/null", stream == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
}

} // namespace programs
