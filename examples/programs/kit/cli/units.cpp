// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/units.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>

#include "kit/cli/exit_codes.hpp"

namespace programs {
namespace {

constexpr std::string_view blanks = " \t";

std::string_view trim(std::string_view text) {
    const auto from = text.find_first_not_of(blanks);
    if (from == std::string_view::npos) return {};
    return text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

std::string lower(std::string_view text) {
    std::string result(text);
    std::ranges::transform(
        result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A non-negative decimal, "12", "1.5" or ".5", as whole and fraction, and the text after it.
struct decimal {
    std::uint64_t whole = 0;
    long double fraction = 0;
    std::string_view rest{};
    bool valid = false, too_large = false;
};

decimal read_decimal(std::string_view text) {
    decimal number;
    std::size_t at = 0;
    for (; at < text.size() && is_digit(text[at]); ++at) {
        number.valid = true;
        const auto digit = static_cast<std::uint64_t>(text[at] - '0');
        if (number.whole > (std::numeric_limits<std::uint64_t>::max() - digit) / 10) number.too_large = true;
        number.whole = number.whole * 10 + digit;
    }
    if (at < text.size() && text[at] == '.') {
        long double place = 0.1L;
        for (++at; at < text.size() && is_digit(text[at]); ++at, place /= 10) {
            number.valid = true;
            number.fraction += place * static_cast<long double>(text[at] - '0');
        }
    }
    number.rest = text.substr(at);
    return number;
}

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 14> size_units{
    {{"tib", 1ULL << 40}, {"gib", 1ULL << 30}, {"mib", 1ULL << 20}, {"kib", 1ULL << 10}, {"b", 1}, {"t", 1ULL << 40},
        {"g", 1ULL << 30}, {"m", 1ULL << 20}, {"k", 1ULL << 10}, {"tb", 1'000'000'000'000}, {"gb", 1'000'000'000},
        {"mb", 1'000'000}, {"kb", 1'000}, {"", 1}}};

template <class Number>
Number read_all(std::string_view given, const char* expected) {
    const std::string_view text = trim(given);
    Number number{};
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure == std::errc::result_out_of_range)
        throw usage_error(fmt::format("'{}' is too large for {}", given, expected));
    if (failure != std::errc{} || end != text.data() + text.size())
        throw usage_error(fmt::format("'{}' is not {}", given, expected));
    return number;
}

/// Formats three significant digits, in `units` that are `step` apart.
std::string scaled(double value, std::initializer_list<const char*> units) {
    auto unit = units.begin();
    while (std::abs(value) >= 999.5 && unit + 1 != units.end()) {
        value /= 1000;
        ++unit;
    }
    const double size = std::abs(value);
    const bool whole = unit == units.begin() && value == std::floor(value);
    const int decimals = whole || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f}{}{}", value, decimals, **unit == '\0' ? "" : " ", *unit);
}

} // namespace

std::uint64_t count_or_percent::of(std::uint64_t total) const noexcept {
    if (!percent) return std::min(count, total);
    return std::min(total, static_cast<std::uint64_t>(std::llround(*percent / 100 * static_cast<double>(total))));
}

byte_size parse_size(std::string_view given) {
    const decimal number = read_decimal(trim(given));
    const std::string name = lower(trim(number.rest));
    const auto unit = std::ranges::find(size_units, name, &std::pair<std::string_view, std::uint64_t>::first);
    if (!number.valid || unit == size_units.end())
        throw usage_error(fmt::format("'{}' is not a size: a number and K, M, G, T (as KiB, MiB, GiB, TiB) or B, KB, "
                                      "MB, GB, TB, such as 300M or 1.5GiB",
            given));
    const auto factor = unit->second;
    const auto fraction = static_cast<std::uint64_t>(number.fraction * static_cast<long double>(factor));
    constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
    if (number.too_large || number.whole > largest / factor || number.whole * factor > largest - fraction)
        throw usage_error(fmt::format("'{}' is larger than any machine: at most 2^64 - 1 bytes", given));
    return {number.whole * factor + fraction};
}

double parse_duration(std::string_view given) {
    const std::string_view text = trim(given);
    const decimal number = read_decimal(text);
    const std::string unit = lower(trim(number.rest));
    const double scale = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
    if (!number.valid || scale == 0)
        throw usage_error(fmt::format("'{}' is not a duration: a number and s, m or h, such as 30s or 5m", given));
    double seconds = 0; // stays 0 below the least double
    std::from_chars(text.data(), text.data() + (text.size() - number.rest.size()), seconds, std::chars_format::fixed);
    seconds *= scale;
    if (number.too_large || seconds > 1e9) throw usage_error(fmt::format("'{}' is longer than thirty years", given));
    if (seconds <= 0) throw usage_error(fmt::format("'{}' must be longer than 0", given));
    return seconds;
}

interval parse_interval(std::string_view given) {
    const std::string text = lower(trim(given));
    if (text == "never") return {};
    for (const std::string_view unit : {"epochs", "epoch"})
        if (text.ends_with(unit)) {
            const auto count = read_all<std::uint64_t>(
                std::string_view(text).substr(0, text.size() - unit.size()), "a number of epochs, such as 1epoch");
            if (count == 0) throw usage_error(fmt::format("'{}': at least one epoch, or never", given));
            return {.epochs = count};
        }
    try {
        return {.seconds = parse_duration(text)};
    } catch (const usage_error&) {
        throw usage_error(fmt::format("'{}' is not an interval: such as 5m, 30s, 2h, 1epoch, or never", given));
    }
}

count_or_all parse_count_or_all(std::string_view given) {
    if (lower(trim(given)) == "all") return {.all = true};
    return {.count = read_all<std::uint64_t>(given, "a whole number of at least 0, or all")};
}

count_or_percent parse_count_or_percent(std::string_view given) {
    const std::string_view text = trim(given);
    if (!text.ends_with('%')) return {.count = read_all<std::uint64_t>(given, "a count, or a share such as 5%")};
    const double percent = parse_number(text.substr(0, text.size() - 1));
    if (percent < 0 || percent > 100) throw usage_error(fmt::format("'{}' is not between 0% and 100%", given));
    return {.percent = percent};
}

std::uint64_t parse_count(std::string_view given) {
    return read_all<std::uint64_t>(given, "a whole number of at least 0");
}
std::int64_t parse_integer(std::string_view given) { return read_all<std::int64_t>(given, "a whole number"); }
double parse_number(std::string_view given) {
    const double number = read_all<double>(given, "a number");
    if (!std::isfinite(number)) throw usage_error(fmt::format("'{}' is not a finite number", given));
    return number;
}
namespace {

std::optional<bool> boolean_of(std::string_view given) {
    const std::string text = lower(trim(given));
    for (const std::string_view yes : {"true", "yes", "on", "1"})
        if (text == yes) return true;
    for (const std::string_view no : {"false", "no", "off", "0"})
        if (text == no) return false;
    return std::nullopt;
}

} // namespace

bool is_bool(std::string_view text) { return boolean_of(text).has_value(); }

bool parse_bool(std::string_view given) {
    if (const auto value = boolean_of(given)) return *value;
    throw usage_error(fmt::format("'{}' is neither true nor false", given));
}

std::vector<std::string> split_list(std::string_view given) {
    std::vector<std::string> parts;
    if (trim(given).empty()) return parts;
    for (std::size_t from = 0; from <= given.size();) {
        from = std::min(given.find_first_not_of(blanks, from), given.size());
        std::size_t comma = 0;
        if (from < given.size() && given[from] == '"') {
            std::string& part = parts.emplace_back();
            std::size_t at = from + 1;
            for (;; at += 2) { // "" is a quote
                const std::size_t quote = given.find('"', at);
                if (quote == given.npos) throw usage_error(fmt::format("'{}' has a quote that is not closed", given));
                part += given.substr(at, quote - at);
                at = quote;
                if (given.substr(at, 2) != "\"\"") break;
                part += '"';
            }
            comma = std::min(given.find(',', at), given.size());
            if (!trim(given.substr(at + 1, comma - at - 1)).empty())
                throw usage_error(fmt::format("'{}' has text after a closing quote", given));
            if (part.empty()) throw usage_error(fmt::format("'{}' has an empty element between its quotes", given));
        } else {
            comma = std::min(given.find(',', from), given.size());
            const std::string_view part = trim(given.substr(from, comma - from));
            if (part.empty()) throw usage_error(fmt::format("'{}' has an empty element between its commas", given));
            parts.emplace_back(part);
        }
        from = comma + 1;
    }
    return parts;
}

std::string to_flag(byte_size size) {
    for (const auto& [unit, factor] :
        {std::pair{"TiB", 1ULL << 40}, {"GiB", 1ULL << 30}, {"MiB", 1ULL << 20}, {"KiB", 1ULL << 10}})
        if (size.bytes != 0 && size.bytes % factor == 0) return fmt::format("{}{}", size.bytes / factor, unit);
    return fmt::format("{}B", size.bytes);
}
std::string to_flag(const interval& every) {
    if (every.never()) return "never";
    if (every.epochs != 0) return fmt::format("{}epoch{}", every.epochs, every.epochs == 1 ? "" : "s");
    const auto whole = [&](double unit) { return std::fmod(every.seconds, unit) == 0; };
    if (whole(3600)) return fmt::format("{}h", to_flag(every.seconds / 3600));
    if (whole(60)) return fmt::format("{}m", to_flag(every.seconds / 60));
    std::array<char, 400> digits{}; // the shortest text that reads back, without an exponent
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), every.seconds, std::chars_format::fixed);
    return fmt::format("{}s", std::string_view(digits.data(), end.ptr));
}
std::string to_flag(const count_or_all& count) { return count.all ? "all" : fmt::format("{}", count.count); }
std::string to_flag(const count_or_percent& count) {
    return count.percent ? to_flag(*count.percent) + "%" : fmt::format("{}", count.count);
}
std::string csv_field(std::string text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
    return quoted + '"';
}

std::string to_flag(double number) { return fmt::format("{}", number); }

std::string human_count(double count) { return scaled(count, {"", "k", "M", "G", "T"}); }
std::string human_exact(std::uint64_t count) {
    std::string text = fmt::format("{}", count);
    for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
    return text;
}
std::string human_rate(double per_second, std::string_view of) {
    return fmt::format("{} {}/s", human_count(per_second), of);
}
std::string human_bytes(double bytes) { return gneiss::format_bytes(static_cast<std::uint64_t>(std::max(bytes, 0.))); }
std::string human_bandwidth(double bytes_per_second) { return human_bytes(bytes_per_second) + "/s"; }
std::string human_seconds(double seconds) {
    if (!std::isfinite(seconds)) return "--";
    if (seconds > 1e14) return fmt::format("{:.1e} s", seconds);
    if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
    if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
    if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
    if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole % 3600 / 60);
    return fmt::format("{}d {:02}h", whole / 86400, whole % 86400 / 3600);
}
std::string human_percent(double share) { return fmt::format("{:.1f}%", share * 100); }
std::string human_eta(double done, double total, double elapsed) {
    if (!(done > 0) || !(total >= done) || !(elapsed > 0)) return "--";
    return human_seconds(elapsed / done * (total - done));
}

} // namespace programs
