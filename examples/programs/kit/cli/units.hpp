// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Shared code of the programs: flags, progress, runs and reports. Not part of the library.
namespace programs {

/// A number of bytes, written as SIZE: B, KiB, MiB, GiB, TiB (or K, M, G, T), KB, MB, GB, TB; a bare number is bytes.
struct byte_size {
    std::uint64_t bytes = 0;

    friend bool operator==(const byte_size&, const byte_size&) = default;
};

/// A period: some seconds, some epochs, or never (both 0).
struct interval {
    double seconds = 0;
    std::uint64_t epochs = 0;

    [[nodiscard]] bool never() const noexcept { return seconds == 0 && epochs == 0; }
    friend bool operator==(const interval&, const interval&) = default;
};

/// A count, or all.
struct count_or_all {
    std::uint64_t count = 0; ///< ignored if `all`
    bool all = false;

    /// Returns the count, limited to `total`.
    [[nodiscard]] std::uint64_t of(std::uint64_t total) const noexcept { return all || count > total ? total : count; }
    friend bool operator==(const count_or_all&, const count_or_all&) = default;
};

/// A count, or a percentage of a total: `200` or `5%`.
struct count_or_percent {
    std::uint64_t count = 0;
    std::optional<double> percent{}; ///< 0..100

    [[nodiscard]] std::uint64_t of(std::uint64_t total) const noexcept;
    friend bool operator==(const count_or_percent&, const count_or_percent&) = default;
};

// Parsers. Each reads the whole text or throws `usage_error` (exit_codes.hpp) with one sentence that names the mistake
// and a valid form; none accepts signs, blanks inside numbers, meaningless exponents, or overflow.

/// Parses `1.5GiB`, `512 MiB`, `2GB`, `4096`. Units in any case. Rounds down to a whole byte.
[[nodiscard]] byte_size parse_size(std::string_view text);
/// Parses `30s`, `5m`, `2h`, `1.5h`, in seconds, > 0.
[[nodiscard]] double parse_duration(std::string_view text);
/// Parses a duration, `3epoch`, `1epochs`, or `never`.
[[nodiscard]] interval parse_interval(std::string_view text);
[[nodiscard]] count_or_all parse_count_or_all(std::string_view text);
[[nodiscard]] count_or_percent parse_count_or_percent(std::string_view text);
[[nodiscard]] std::uint64_t parse_count(std::string_view text);
[[nodiscard]] std::int64_t parse_integer(std::string_view text);
/// Parses a finite number, such as `1e-3` and `.05`.
[[nodiscard]] double parse_number(std::string_view text);
[[nodiscard]] bool parse_bool(std::string_view text);
/// True if `parse_bool` takes the text.
[[nodiscard]] bool is_bool(std::string_view text);
/// Splits at commas and trims blanks; a part with commas is in double quotes, with "" for a quote inside (RFC 4180). An
/// empty text has no parts; an empty part is an error.
[[nodiscard]] std::vector<std::string> split_list(std::string_view text);

/// Returns a field of a line with commas: in double quotes if it needs them (RFC 4180), as `split_list` reads it.
[[nodiscard]] std::string csv_field(std::string text);

// The same values as text that a parser reads back exactly.

/// Formats in the largest binary unit that divides the size: "1536MiB".
[[nodiscard]] std::string to_flag(byte_size size);
[[nodiscard]] std::string to_flag(const interval& every);
[[nodiscard]] std::string to_flag(const count_or_all& count);
[[nodiscard]] std::string to_flag(const count_or_percent& count);
/// Returns the shortest text that reads back as the same number.
[[nodiscard]] std::string to_flag(double number);

// For display: three significant digits.

/// "999", "1.23 k", "45.6 M".
[[nodiscard]] std::string human_count(double count);
/// "1,234,567".
[[nodiscard]] std::string human_exact(std::uint64_t count);
/// "1.23 M edges/s".
[[nodiscard]] std::string human_rate(double per_second, std::string_view of);
/// "1.23 GiB", of memory and of disks: `gneiss::format_bytes` of the whole bytes; 0 B for a negative number.
[[nodiscard]] std::string human_bytes(double bytes);
/// "1.23 GiB/s".
[[nodiscard]] std::string human_bandwidth(double bytes_per_second);
/// "850 ms", "12.3 s", "3m 05s", "2h 07m", "3d 04h".
[[nodiscard]] std::string human_seconds(double seconds);
/// "12.3%".
[[nodiscard]] std::string human_percent(double share);
/// Time left after `done` of `total` units of work in `elapsed` seconds; "--" if unknown.
[[nodiscard]] std::string human_eta(double done, double total, double elapsed);

} // namespace programs
