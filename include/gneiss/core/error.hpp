// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

/// A precondition checked in debug builds only; hot loops are `noexcept` and use this.
#define GNEISS_ASSERT(condition) assert(condition)

namespace gneiss {

/// What went wrong, so that callers branch on a value and not on a text.
enum class errc {
    invalid_argument,     ///< a value that the caller chose cannot be used
    invalid_format,       ///< bytes that do not follow the format they claim
    corrupt,              ///< a checksum or an invariant of stored data does not hold
    out_of_range,         ///< an id or count lies outside what the data declares
    version_mismatch,     ///< written by another version of the format
    config_mismatch,      ///< a resume with another configuration
    over_budget,          ///< the memory budget cannot hold what was asked
    no_space,             ///< the disk cannot hold what was asked
    io,                   ///< the system refused an operation (see `io_error`)
    canceled,            ///< a stop was requested
    closed,               ///< the other end of a queue is gone
    unsupported,          ///< not available on this machine or in this build
    not_finite,           ///< NaN or infinity where a number is needed
    already_exists,       ///< refuses to overwrite
    not_found,            ///< a named thing that is not there
};

/// Where it went wrong. Absent parts keep their defaults.
struct error_place {
    std::filesystem::path path{};
    std::uint64_t offset = 0; ///< bytes from the start of the file
    std::uint64_t length = 0; ///< bytes concerned; 0: unknown
    std::uint64_t line = 0;   ///< text files, from 1; 0: not a text file
    std::uint64_t column = 0; ///< text files, from 1
    std::string field{};      ///< name of a manifest key, flag or column
};

namespace detail {

/// What came from a file may hold anything: control characters would break the line, or command a terminal.
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

/// An error that is not the system's: wrong data, a refused request. `what()` is one line that names the place.
class error : public std::runtime_error {
public:
    error(errc code, const std::string& what, error_place at = {})
        : std::runtime_error(detail::describe(what, at)), code_(code), place_(std::move(at)) {}

    [[nodiscard]] errc code() const noexcept { return code_; }
    [[nodiscard]] const error_place& place() const noexcept { return place_; }

private:
    errc code_;
    error_place place_;
};

/// An operation that the operating system refused: `code()` is its errno, `place()` says on which bytes.
class io_error : public std::system_error {
public:
    io_error(int error_number, const std::string& operation, error_place at)
        : std::system_error(error_number, std::generic_category(), detail::describe(operation, at)),
          place_(std::move(at)) {}

    [[nodiscard]] const error_place& place() const noexcept { return place_; }
    [[nodiscard]] bool out_of_space() const noexcept { return code().value() == ENOSPC || code().value() == EDQUOT; }

private:
    error_place place_;
};

} // namespace gneiss
