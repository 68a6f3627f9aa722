// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "kit/cli/exit_codes.hpp"
#include "kit/cli/units.hpp"

namespace programs {

/// Returns the value of --NAME as a narrower integer. Throws `usage_error` for one that it cannot hold: a cast would
/// cut it.
template <class To, class From>
[[nodiscard]] To narrow(From value, std::string_view name) {
    if (!std::in_range<To>(value))
        throw usage_error("--" + std::string(name) + " " + std::to_string(value) + " is out of range: at most " +
            std::to_string(std::numeric_limits<To>::max()));
    return static_cast<To>(value);
}

/// Conversions of a flag's type: from a flag (`read`), to scripts and files (`write`), and its name in the help
/// (`name`). Specialize it to pass your own type to `command::option`.
template <class T>
struct flag_type;

template <class T>
    requires std::is_unsigned_v<T>
struct flag_type<T> {
    static constexpr const char* name = "N";
    static T read(std::string_view text) {
        const std::uint64_t value = parse_count(text);
        if (value > std::numeric_limits<T>::max())
            throw usage_error(
                "'" + std::string(text) + "' is too large: at most " + std::to_string(std::numeric_limits<T>::max()));
        return static_cast<T>(value);
    }
    static nlohmann::ordered_json write(T value) { return value; }
};
template <>
struct flag_type<std::int64_t> {
    static constexpr const char* name = "N";
    static std::int64_t read(std::string_view text) { return parse_integer(text); }
    static nlohmann::ordered_json write(std::int64_t value) { return value; }
};
template <>
struct flag_type<bool> {
    static constexpr const char* name = "";
    static bool read(std::string_view text) { return parse_bool(text); }
    static nlohmann::ordered_json write(bool value) { return value; }
};
/// An absent Boolean is one of three values, which the help shows.
template <>
struct flag_type<std::optional<bool>> {
    static constexpr const char* name = "BOOL";
    static std::optional<bool> read(std::string_view text) { return parse_bool(text); }
    static nlohmann::ordered_json write(std::optional<bool> value) {
        return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
    }
};
template <>
struct flag_type<double> {
    static constexpr const char* name = "X";
    static double read(std::string_view text) { return parse_number(text); }
    static nlohmann::ordered_json write(double value) { return value; }
};
template <>
struct flag_type<float> {
    static constexpr const char* name = "X";
    static float read(std::string_view text) {
        const double value = parse_number(text);
        if (value > std::numeric_limits<float>::max() || value < std::numeric_limits<float>::lowest())
            throw usage_error("'" + std::string(text) + "' is beyond the numbers of 32 bits");
        return static_cast<float>(value);
    }
    /// Writes the shortest decimal text: 0.1f as 0.1, not as 0.10000000149.
    static nlohmann::ordered_json write(float value);
};
template <>
struct flag_type<std::string> {
    static constexpr const char* name = "NAME";
    static std::string read(std::string_view text) { return std::string(text); }
    static nlohmann::ordered_json write(const std::string& value) { return value; }
};
template <>
struct flag_type<std::filesystem::path> {
    static constexpr const char* name = "PATH";
    /// Returns the path without slashes at its end, since names next to it (DIR.new) are made from it.
    static std::filesystem::path read(std::string_view text) {
        if (text.empty()) throw usage_error("an empty path");
        while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
        return text;
    }
    static nlohmann::ordered_json write(const std::filesystem::path& value) { return value.string(); }
};
template <>
struct flag_type<byte_size> {
    static constexpr const char* name = "SIZE";
    static byte_size read(std::string_view text) { return parse_size(text); }
    static nlohmann::ordered_json write(byte_size value) { return value.bytes; }
};
template <>
struct flag_type<interval> {
    static constexpr const char* name = "EVERY";
    static interval read(std::string_view text) { return parse_interval(text); }
    static nlohmann::ordered_json write(const interval& value) { return to_flag(value); }
};
template <>
struct flag_type<count_or_all> {
    static constexpr const char* name = "N|all";
    static count_or_all read(std::string_view text) { return parse_count_or_all(text); }
    static nlohmann::ordered_json write(const count_or_all& value) {
        return value.all ? nlohmann::ordered_json("all") : nlohmann::ordered_json(value.count);
    }
};
template <>
struct flag_type<count_or_percent> {
    static constexpr const char* name = "N|X%";
    static count_or_percent read(std::string_view text) { return parse_count_or_percent(text); }
    static nlohmann::ordered_json write(const count_or_percent& value) {
        return value.percent ? nlohmann::ordered_json(to_flag(value)) : nlohmann::ordered_json(value.count);
    }
};

/// A value that may be absent: null until it is set.
template <class T>
struct flag_type<std::optional<T>> {
    static constexpr const char* name = flag_type<T>::name;
    static std::optional<T> read(std::string_view text) { return flag_type<T>::read(text); }
    static nlohmann::ordered_json write(const std::optional<T>& value) {
        return value ? flag_type<T>::write(*value) : nlohmann::ordered_json();
    }
};

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T>
inline constexpr bool is_list<std::optional<std::vector<T>>> = true;

/// True for a path, a list of paths, and an optional of either.
template <class T>
inline constexpr bool is_path = std::is_same_v<T, std::filesystem::path>;
template <class T>
inline constexpr bool is_path<std::vector<T>> = is_path<T>;
template <class T>
inline constexpr bool is_path<std::optional<T>> = is_path<T>;

template <class T>
struct without_optional {
    using type = T;
};
template <class T>
struct without_optional<std::optional<T>> {
    using type = T;
};

/// A list such as `10,10`; an empty text is an empty list.
template <class T>
struct flag_type<std::vector<T>> {
    static constexpr const char* name = "LIST";
    static std::vector<T> read(std::string_view text) { return read_parts(split_list(text)); }
    static std::vector<T> read_parts(const std::vector<std::string>& parts) {
        std::vector<T> values;
        for (const std::string& part : parts) values.push_back(flag_type<T>::read(part));
        return values;
    }
    static nlohmann::ordered_json write(const std::vector<T>& values) {
        auto list = nlohmann::ordered_json::array();
        for (const T& value : values) list.push_back(flag_type<T>::write(value));
        return list;
    }
};

} // namespace programs
