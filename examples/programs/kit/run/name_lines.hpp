// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace trainers {

/// Calls visit(fields, place) for the lines of a file, or with "-" of the standard input: fields between tabs, or of a
/// .csv between commas, with quotes (RFC 4180).
/// Throws errc::invalid_format with the place. Memory: 1 MiB and the longest line, of at most 16 MiB.
template <class Visit>
void for_each_line_of(const std::filesystem::path& path, Visit&& visit) {
    const bool csv = path.extension() == ".csv", piped = path == "-";
    const std::filesystem::path place = piped ? "standard input" : path;
    const gneiss::importing::text_format format{.delimiter = csv ? ',' : '\t', .quotes = csv};
    constexpr std::size_t piece = std::size_t{1} << 20, longest = 16 * piece;
    const gneiss::plain_file file = piped ? gneiss::plain_file() : gneiss::plain_file::open(path);
    std::string text; // whole lines, and the beginning of one
    std::uint64_t at = 0, line = 1;
    for (bool ended = false; !ended;) {
        const std::size_t kept = text.size();
        text.resize(
            kept + (piped ? piece : static_cast<std::size_t>(std::min<std::uint64_t>(piece, file.size() - at))));
        const std::span<char> more = std::span(text).subspan(kept);
        if (piped)
            text.resize(kept + std::fread(more.data(), 1, more.size(), stdin));
        else
            file.read_at(at, std::as_writable_bytes(more));
        at += text.size() - kept;
        ended = text.size() - kept < piece;
        const std::size_t whole = ended ? text.size() : text.rfind('\n') + 1; // 0: no line ends here
        if (whole == 0 && text.size() >= longest)
            throw gneiss::error(gneiss::errc::invalid_format, "is longer than " + gneiss::format_bytes(longest),
                {.path = place, .line = line});
        const std::string_view lines = std::string_view(text).substr(0, whole);
        gneiss::importing::for_each_line(lines, line, place, format, visit);
        line += static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
        text.erase(0, whole);
    }
}

/// Returns the row of the node called `name`. Throws errc::not_found with the place.
[[nodiscard]] inline gneiss::node_id node_called(
    const gneiss::dataset& data, const std::string& name, const gneiss::error_place& place) {
    const auto row = data.find_row(name);
    if (!row) throw gneiss::error(gneiss::errc::not_found, "no node is called '" + name + "'", place);
    return static_cast<gneiss::node_id>(*row);
}

/// Appends a value that a file names. Throws over_budget before the list, as it grows, takes more than a quarter of
/// `memory`.
template <class T>
void append_within(std::vector<T>& to, const T& value, std::uint64_t memory, const char* what) {
    const std::uint64_t grown = 3 * to.size() * sizeof(T); // the old list and one twice as long
    if (to.size() == to.capacity() && grown > memory / 4) throw gneiss::over_budget(memory / 4, {{what, grown}});
    to.push_back(value);
}

/// Calls visit(node) for the nodes of a file with one name per line. Throws errc::not_found or invalid_format with the
/// place.
template <class Visit>
void for_each_name(const gneiss::dataset& data, const std::filesystem::path& path, Visit&& visit) {
    for_each_line_of(
        path, [&](const gneiss::importing::line_fields& fields, const gneiss::importing::line_place& place) {
            if (fields.count != 1)
                place.fail(fields.at[1], "needs one name per line; in a .csv a name with commas is in quotes");
            visit(node_called(data, std::string(fields.at[0]), place.at(fields.at[0].data())));
        });
}

} // namespace trainers
