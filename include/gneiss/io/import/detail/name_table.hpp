// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>

namespace gneiss::importing {

/// Columns of a table of names, as its lines show them.
struct name_table_layout {
    text_format text{};                      ///< skips a line with titles or a count
    bool id_first = true;                    ///< id and name; else name and id
    std::optional<std::uint64_t> declared{}; ///< names that the first line declares (OpenKE)
    std::string doubt{};                     ///< either column may be the ids: which one was taken; empty: certain
};

namespace detail {

/// Numbers of one column, which are ids if they are 0 … n − 1, each once.
class id_candidate {
public:
    /// Adds the field of line `count`.
    void add(std::string_view field, std::uint64_t count) {
        std::uint64_t id = 0;
        const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), id);
        ids_ = ids_ && is_integer(field) && failure == std::errc{} && id <= 64 * (count + 16) + (1U << 20);
        if (!ids_) return;
        if (id >= seen_.size()) seen_.resize(static_cast<std::size_t>(id) + 1);
        ids_ = !seen_[static_cast<std::size_t>(id)];
        seen_[static_cast<std::size_t>(id)] = true;
    }
    [[nodiscard]] bool ids_of(std::uint64_t lines) const noexcept { return ids_ && seen_.size() == lines; }

private:
    std::vector<bool> seen_;
    bool ids_ = true;
};

/// Chooses the column of ids among two columns of integers: the one with 0 … n − 1; if both have, by the file's name.
inline void choose_id_column(const std::filesystem::path& path, name_table_layout& layout) {
    std::array<id_candidate, 2> columns;
    std::uint64_t lines = 0;
    bool same = true;
    file_source source(path);
    line_cutter cutter(source, path, 1 << 18, 16 << 20);
    text_chunk chunk;
    while (cutter.next(chunk))
        for_each_line(
            chunk.text(), chunk.first_line, path, layout.text,
            [&](const line_fields& fields, const line_place&) {
                if (fields.count < 2) return;
                for (std::size_t i = 0; i < 2; ++i) columns[i].add(fields.at[i], lines);
                same = same && fields.at[0] == fields.at[1];
                ++lines;
            },
            [](const error&) { return true; }, [] {}); // reported when the table is read
    const bool first = columns[0].ids_of(lines), second = columns[1].ids_of(lines);
    layout.id_first = first || !second;
    if (!first || !second || same) return;
    const std::string name = path.filename().string();
    layout.id_first = name.find("2id") == std::string::npos && name.find("to_id") == std::string::npos;
    layout.doubt = "either column may be the ids, 0 … " + std::to_string(lines - 1) + ": the " +
        (layout.id_first ? "first was read as the id, the second" : "second was read as the id, the first") +
        " as the name; if it is the other way around, exchange the columns, by awk -F'" +
        (layout.text.delimiter == '\t' ? "\\t" : std::string(1, layout.text.delimiter)) + "' '{print $2\"\\t\"$1}' '" +
        path.string() + "' > NEW; if the edges have names, choose --ids string";
}

} // namespace detail

/// Finds the columns of a table "id TAB name" (or "name TAB id"; or commas in a .csv; or a blank between). A first line
/// without an id is skipped: titles, or the number of names.
///
/// \param header  the first line is titles, even if it is a number
/// Cost: 100 lines, or the table if both columns are integers.
[[nodiscard]] inline name_table_layout find_name_table_layout(const std::filesystem::path& path, bool header) {
    name_table_layout layout;
    file_source source(path);
    const first_lines first(source, path, "", 100);
    if (first.lines.empty()) throw error(errc::invalid_format, "an empty table: expected id TAB name", {.path = path});
    const auto fields_of = [&](std::size_t i, line_fields& fields) {
        const std::string& line = first.lines[i];
        split_line(line, layout.text, {&path, first.numbers[i], line.data(), line.size()}, fields);
    };
    const bool counted = first.lines.size() > 1 && is_integer(detail::trimmed(first.lines[0]));
    const std::string& row = first.lines[counted ? 1 : 0];
    layout.text.delimiter = row.find('\t') != std::string::npos ? '\t' : plain_extension(path) == ".csv" ? ',' : ' ';
    layout.text.quotes = layout.text.delimiter == ',';
    line_fields fields;
    if (counted) {
        std::uint64_t names = 0;
        const std::string_view digits = detail::trimmed(first.lines[0]);
        std::from_chars(digits.data(), digits.data() + digits.size(), names);
        if (!header) layout.declared = names;
        layout.text.skip_lines = first.numbers[0];
    }
    std::array<bool, 2> ids{true, true}, titled{};
    std::size_t begin = counted ? 1 : 0;
    if (fields_of(begin, fields); !counted && first.lines.size() > 1 && fields.count > 1 && !is_integer(fields.at[0]) &&
        !is_integer(fields.at[1])) {
        for (std::size_t i = 0; i < 2; ++i) titled[i] = detail::lowered(fields.at[i]).ends_with("id");
        layout.text.skip_lines = first.numbers[begin++];
    }
    for (std::size_t at = begin; at < first.lines.size(); ++at) {
        fields_of(at, fields);
        for (std::size_t i = 0; i < 2; ++i) ids[i] = ids[i] && fields.count > i && is_integer(fields.at[i]);
    }
    layout.id_first = ids[0] || !ids[1];
    if (ids[0] && ids[1]) {
        if (titled[0] != titled[1])
            layout.id_first = titled[0];
        else
            detail::choose_id_column(path, layout);
    }
    return layout;
}

/// Calls `visit(id, name, place)` for every line of a table of names (`find_name_table_layout`). Ids must be 0 … n − 1,
/// each once; returns n.
///
/// Cost: one pass, two if both columns are integers; memory of one bit per id. Errors name file, line and column.
template <class Visit>
std::uint64_t read_name_table(const std::filesystem::path& path, Visit&& visit, bool header = false) {
    const name_table_layout layout = find_name_table_layout(path, header);
    std::vector<bool> seen;
    std::uint64_t count = 0;
    file_source source(path);
    line_cutter cutter(source, path, 1 << 18, 16 << 20);
    text_chunk chunk;
    while (cutter.next(chunk))
        for_each_line(
            chunk.text(), chunk.first_line, path, layout.text, [&](const line_fields& fields, const line_place& place) {
                if (fields.count < 2) place.fail(place.begin + place.length, "expected an id and a name");
                const std::string_view id_text = fields.at[layout.id_first ? 0 : 1],
                                       name = fields.at[layout.id_first ? 1 : 0];
                const std::uint64_t id = parse_id(id_text, 0, 0xffffffffU, place);
                if (name.empty()) place.fail(name, "the name is empty");
                need_utf8(name, place);
                if (id >= seen.size()) {
                    // Gaps are detected at the end; a wild id would size the list first.
                    if (id > 64 * (count + 16) + (1U << 20))
                        place.fail(
                            id_text, "the id " + std::string(id_text) + " leaves a gap: ids of a table are 0 … n − 1");
                    seen.resize(static_cast<std::size_t>(id) + 1);
                }
                if (seen[static_cast<std::size_t>(id)])
                    place.fail(id_text, "the id " + std::string(id_text) + " is repeated in this table");
                seen[static_cast<std::size_t>(id)] = true;
                ++count;
                visit(id, name, place);
            });
    if (layout.declared && *layout.declared != count)
        throw error(errc::invalid_format,
            "was read as the number of names, " + std::to_string(*layout.declared) + ", but " + std::to_string(count) +
                " follow: is the table complete? If the line is no count, skip it by --header",
            {.path = path, .line = layout.text.skip_lines});
    if (count == 0) throw error(errc::invalid_format, "an empty table: expected id TAB name", {.path = path});
    if (count != seen.size()) {
        std::size_t hole = 0;
        while (seen[hole]) ++hole;
        throw error(errc::invalid_format, "no name for id " + std::to_string(hole) + ": ids of a table are 0 … n − 1",
            {.path = path});
    }
    return count;
}

} // namespace gneiss::importing
