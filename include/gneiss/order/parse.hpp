// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Parses an epoch's list of edge buckets: one "i j" per line, separated by blanks, tabs or a comma, in training order.
/// Skips empty lines and text after '#'; accepts CRLF.
///
/// \param text        the whole file
/// \param partitions  p; the list must name each of the p² buckets once
/// \param path        shown in errors
///
/// Throws error with line and column: errc::invalid_format for text that is not a pair of numbers, errc::out_of_range
/// for a partition that does not exist, errc::invalid_argument for a bucket named twice (with the line of the first)
/// and, without a line, for a missing one. Cost: O(text + p²).
[[nodiscard]] inline std::vector<edge_bucket> parse_buckets(
    std::string_view text, std::uint32_t partitions, const std::filesystem::path& path = {}) {
    detail::check_buffer(partitions, partitions);
    std::vector<std::uint64_t> named_at(std::size_t{partitions} * partitions, 0); // line, 0: not yet
    std::vector<edge_bucket> buckets;
    std::uint64_t line_number = 0;
    const auto fail = [&](errc code, const std::string& what, std::uint64_t column) {
        throw error(code, what, {.path = path, .line = line_number, .column = column});
    };
    while (!text.empty()) {
        ++line_number;
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(line.size() < text.size() ? line.size() + 1 : line.size());
        line = line.substr(0, line.find('#'));
        partition_id field[2]{};
        std::size_t fields = 0, at = 0;
        for (;; ++fields) {
            const std::size_t begin = line.find_first_not_of(fields == 1 ? " \t\r," : " \t\r", at);
            if (begin == line.npos) break;
            if (fields == 2) fail(errc::invalid_format, "more than two numbers", begin + 1);
            const auto [end, problem] = std::from_chars(line.data() + begin, line.data() + line.size(), field[fields]);
            const std::string word(line.substr(begin, line.find_first_of(" \t\r,", begin) - begin));
            at = static_cast<std::size_t>(end - line.data());
            if (problem == std::errc::invalid_argument || (problem == std::errc{} && at != begin + word.size()))
                fail(errc::invalid_format, std::string("'").append(word).append("' is not a partition number"),
                    begin + 1);
            if (problem != std::errc{} || field[fields] >= partitions)
                fail(errc::out_of_range, "partition " + word + " of " + std::to_string(partitions), begin + 1);
        }
        if (fields == 0) continue;
        if (fields == 1) fail(errc::invalid_format, "two partition numbers are needed", at + 1);
        std::uint64_t& before = named_at[std::size_t{field[0]} * partitions + field[1]];
        if (before != 0)
            fail(errc::invalid_argument,
                detail::name_of({field[0], field[1]}) + " again, after line " + std::to_string(before), 1);
        before = line_number;
        buckets.emplace_back(field[0], field[1]);
    }
    if (buckets.size() < named_at.size()) {
        std::size_t missing = 0;
        while (named_at[missing] != 0) ++missing;
        line_number = 0;
        const edge_bucket first{
            static_cast<partition_id>(missing / partitions), static_cast<partition_id>(missing % partitions)};
        fail(errc::invalid_argument,
            detail::name_of(first) + " is missing, one of " + std::to_string(named_at.size() - buckets.size()), 0);
    }
    return buckets;
}

} // namespace gneiss
