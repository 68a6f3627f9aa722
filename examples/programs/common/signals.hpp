#pragma once

#include <memory>
#include <stop_token>

namespace programs {

/// Turns Ctrl-C and SIGTERM into a stop request during its lifetime; a second one ends the program at once with 130.
///
/// The handler only writes one byte to a pipe (async-signal-safe); a thread of this object reads it and requests the stop, so
/// stop callbacks may lock, allocate and print. At most one exists at a time.
class interrupt_guard {
public:
    /// Throws `gneiss::io_error` if the pipe cannot be made, `std::logic_error` if another guard exists.
    interrupt_guard();
    ~interrupt_guard();
    interrupt_guard(const interrupt_guard&) = delete;
    interrupt_guard& operator=(const interrupt_guard&) = delete;

    [[nodiscard]] std::stop_token token() const noexcept;
    [[nodiscard]] bool interrupted() const noexcept { return token().stop_requested(); }

private:
    struct state;
    std::unique_ptr<state> state_;
};

/// Makes SIGTERM end this process at once with exit code 130 where no `interrupt_guard` is, as for commands that write nothing.
void exit_at_termination() noexcept;

} // namespace programs
