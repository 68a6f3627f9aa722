// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stop_token>

namespace programs {

/// Turns Ctrl-C, SIGTERM and SIGHUP into a stop request during its lifetime; a second one, half a second later or more,
/// ends the program at once with 130. SIGHUP stays ignored if it was, as under nohup.
///
/// The handler only writes one byte to a pipe (async-signal-safe); a thread of this object reads it and requests the
/// stop, so stop callbacks may lock, allocate and print. At most one exists at a time. In a `command_call`, its token
/// is the caller's, and signals stay as they are.
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
    std::unique_ptr<state> state_; ///< null in a `command_call`
    std::stop_token token_;
};

/// Makes Ctrl-C, SIGTERM and SIGHUP end this process at once, with the error "interrupted" and exit code 130, where no
/// `interrupt_guard` is, as for commands that write nothing. SIGHUP stays ignored if it was.
void exit_at_termination() noexcept;

/// Makes writes fail that would end this process by a signal: to a closed pipe (EPIPE), beyond the limit of a file's
/// size (EFBIG). Programs that it starts are not affected.
void report_failed_writes() noexcept;

/// Opens standard streams that are closed, so that no other file takes their place: reads from standard input and
/// writes to standard output fail, standard error is discarded.
void open_standard_streams() noexcept;

} // namespace programs
