#include "common/signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <unistd.h>

#include <gneiss/core/error.hpp>

namespace programs {
namespace {

constexpr char stop_byte = 's', end_byte = 'e';

// The only state that the handler touches. Lock-free, hence async-signal-safe.
std::atomic<int> signal_pipe{-1};
std::atomic<int> signals_seen{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int) {
    const int saved = errno;
    if (signals_seen.fetch_add(1) > 0) {
        constexpr char last_words[] = "\nerror: interrupted twice: stopped at once, without saving\n";
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, last_words, sizeof last_words - 1);
        ::_exit(130);
    }
    [[maybe_unused]] const auto written = ::write(signal_pipe.load(), &stop_byte, 1);
    errno = saved;
}

} // namespace

struct interrupt_guard::state {
    std::stop_source source;
    int ends[2] = {-1, -1};
    struct sigaction before_int {
    }, before_term{};
    std::thread watcher;
};

interrupt_guard::interrupt_guard() : state_(std::make_unique<state>()) {
    int* const ends = state_->ends;
    if (::pipe2(ends, O_CLOEXEC) != 0) throw gneiss::io_error(errno, "cannot create a pipe", {});
    int none = -1;
    if (!signal_pipe.compare_exchange_strong(none, ends[1])) {
        ::close(ends[0]);
        ::close(ends[1]);
        throw std::logic_error("two interrupt_guards at once");
    }
    signals_seen = 0;
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
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGINT, &action, &state_->before_int);
    ::sigaction(SIGTERM, &action, &state_->before_term);
}

interrupt_guard::~interrupt_guard() {
    ::sigaction(SIGINT, &state_->before_int, nullptr);
    ::sigaction(SIGTERM, &state_->before_term, nullptr);
    while (::write(state_->ends[1], &end_byte, 1) < 0 && errno == EINTR) {
    }
    state_->watcher.join();
    signal_pipe = -1;
    ::close(state_->ends[0]);
    ::close(state_->ends[1]);
}

std::stop_token interrupt_guard::token() const noexcept { return state_->source.get_token(); }

void exit_at_termination() noexcept {
    struct sigaction action {};
    action.sa_handler = [](int) { ::_exit(130); };
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGTERM, &action, nullptr);
}

} // namespace programs
