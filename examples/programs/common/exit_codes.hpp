#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace programs {

/// What a program tells its caller. Scripts depend on the numbers.
enum class exit_code : int {
    done = 0,
    failed = 1,        ///< something is missing, broken or refused by the system
    usage = 2,         ///< the command line makes no sense
    refused = 3,       ///< memory or disk cannot hold it
    interrupted = 130, ///< Ctrl-C or SIGTERM; the state is saved
};

/// The command line makes no sense. `what()` is one sentence: which flag, what is wrong, what would be right.
class usage_error : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What an exception means for the caller, and the one line that tells it.
struct failure {
    exit_code code = exit_code::failed;
    std::string message{}; ///< one line, without "error: "; empty: nothing to say
};

/// Classifies the exception in flight; call inside a `catch`.
///
/// usage_error, errc::{invalid_argument without a path, already_exists, config_mismatch} -> usage;
/// over_budget, errc::no_space, a full disk, std::bad_alloc -> refused; errc::canceled -> interrupted; others ->
/// failed.
[[nodiscard]] failure describe_current_exception();

/// Runs `body` and turns whatever it throws into an exit code and one line "error: …" on stderr.
/// A stdout that could not be written (a full disk) is a failure too. Never throws.
[[nodiscard]] int run_program(const std::function<exit_code()>& body) noexcept;

/// `text` on one line: line breaks and other control characters become blanks.
[[nodiscard]] std::string one_line(std::string_view text);

} // namespace programs
