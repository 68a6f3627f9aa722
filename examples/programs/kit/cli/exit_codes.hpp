// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace programs {

/// Exit code of a program. Scripts depend on the numbers.
enum class exit_code : int {
    done = 0,
    failed = 1,        ///< something is missing, broken or refused by the system
    usage = 2,         ///< invalid command line
    refused = 3,       ///< memory or disk cannot hold it
    interrupted = 130, ///< Ctrl-C, SIGTERM or SIGHUP; the state is saved
};

/// An invalid command line. `what()` is one sentence: the flag, the mistake, and a valid value.
class usage_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Exit code and one-line message of an exception.
struct failure {
    exit_code code = exit_code::failed;
    std::string message{}; ///< one line, without "error: "; empty: no message
};

/// Classifies the exception in flight; call inside a `catch`.
///
/// usage_error, errc::{invalid_argument without a path, already_exists, config_mismatch} -> usage; over_budget,
/// errc::no_space, a full disk, a file beyond the limit of its size, std::bad_alloc -> refused; errc::canceled ->
/// interrupted; others -> failed.
[[nodiscard]] failure describe_current_exception();

/// Runs `body` and turns any exception into an exit code and one line "error: …" on stderr. A failed write to stdout (a
/// full disk) is a failure too. Never throws.
[[nodiscard]] int run_program(const std::function<exit_code()>& body) noexcept;

/// Returns `text` on one line, as `visible` shows it: runs of line breaks and tabs become a blank.
[[nodiscard]] std::string one_line(std::string_view text);

} // namespace programs
