// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

/// \ingroup core
/// Precondition checked in debug builds only; `noexcept` hot loops use it.
#define GNEISS_ASSERT(condition) assert(condition)

namespace gneiss {

/// Error category, so that callers branch on a value instead of a text.
enum class errc {
    invalid_argument, ///< the caller passed an unusable value
    invalid_format,   ///< bytes do not follow the format they claim
    corrupt,          ///< a checksum or invariant of stored data does not hold
    out_of_range,     ///< an id or count exceeds what the data declares
    version_mismatch, ///< written by another version of the format
    config_mismatch,  ///< resuming with a different configuration
    over_budget,      ///< the request exceeds the memory budget
    no_space,         ///< the request exceeds the free disk space
    io,               ///< the system refused an operation (see `io_error`)
    canceled,         ///< a stop was requested
    closed,           ///< the other end of a queue is closed
    unsupported,      ///< not available on this machine or in this build
    not_finite,       ///< NaN or infinity where a finite number is required
    already_exists,   ///< the target exists and is not overwritten
    not_found,        ///< a named object does not exist
};

/// Location of an error. Absent parts keep their defaults.
struct error_place {
    std::filesystem::path path{}; ///< file or directory; empty: none
    std::uint64_t offset = 0;     ///< bytes from the start of the file
    std::uint64_t length = 0;     ///< bytes affected; 0: unknown
    std::uint64_t line = 0;       ///< in text files, from 1; 0: not a text file
    std::uint64_t column = 0;     ///< in text files, from 1
    std::string field{};          ///< name of a manifest key, flag or column
};

namespace detail {

/// Replaces control characters: text from a file may contain any, and they would break the line or control a terminal.
inline std::string describe(const std::string& what, const error_place& at) {
    std::string text;
    if (!at.path.empty()) text += at.path.string() + ": ";
    if (at.line != 0) {
        text += "line " + std::to_string(at.line);
        if (at.column != 0) text += ", column " + std::to_string(at.column);
        text += ": ";
    }
    if (!at.field.empty()) text += at.field + ": ";
    text += what;
    if (at.length != 0)
        text += " (" + std::to_string(at.length) + " bytes at offset " + std::to_string(at.offset) + ")";
    for (char& c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    return text;
}

} // namespace detail

/// Error not reported by the system: wrong data or a refused request. `what()` is one line that names the location.
class error : public std::runtime_error {
public:
    /// Makes an error whose message is `what`, preceded by the location.
    error(errc code, const std::string& what, error_place at = {})
        : std::runtime_error(detail::describe(what, at)),
          code_(code),
          place_(std::move(at)) {}

    /// Returns the kind of error.
    [[nodiscard]] errc code() const noexcept { return code_; }
    /// Returns the location.
    [[nodiscard]] const error_place& place() const noexcept { return place_; }

private:
    errc code_;
    error_place place_;
};

/// Operation refused by the operating system: `code()` is its errno, `place()` gives the bytes affected.
class io_error : public std::system_error {
public:
    /// Makes an error of a failed system call: errno, the operation, and its location.
    io_error(int error_number, const std::string& operation, error_place at)
        : std::system_error(error_number, std::generic_category(), detail::describe(operation, at)),
          place_(std::move(at)) {}

    /// Returns the location.
    [[nodiscard]] const error_place& place() const noexcept { return place_; }
    /// True if the disk or the quota is full.
    [[nodiscard]] bool out_of_space() const noexcept { return code().value() == ENOSPC || code().value() == EDQUOT; }

private:
    error_place place_;
};

} // namespace gneiss
