// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/source_plan.hpp>

namespace gneiss::importing {

/// Calls `visit(id, name, place)` for every line of a table "id TAB name" (or "name TAB id"; or commas in a .csv; or a blank
/// between). Ids must be 0 … n − 1, each once; returns n.
///
/// Cost: one pass; memory of one bit per id. Errors name file, line and column.
template <class Visit>
std::uint64_t read_name_table(const std::filesystem::path& path, Visit&& visit) {
    text_format format;
    bool id_first = true;
    {
        file_source source(path);
        const first_lines first(source, path, "", 100);
        if (first.lines.empty())
            throw error(errc::invalid_format, "an empty table: expected id TAB name", {.path = path});
        const std::string& line = first.lines[0];
        format.delimiter = line.find('\t') != std::string::npos ? '\t' : plain_extension(path) == ".csv" ? ',' : ' ';
        format.quotes = format.delimiter == ',';
        line_fields fields;
        bool first_is_id = true, second_is_id = true;
        for (std::size_t i = 0; i < first.lines.size(); ++i) {
            const std::string& each = first.lines[i];
            split_line(each, format, {&path, first.numbers[i], each.data(), each.size()}, fields);
            first_is_id = first_is_id && fields.count > 0 && is_integer(fields.at[0]);
            second_is_id = second_is_id && fields.count > 1 && is_integer(fields.at[1]);
        }
        id_first = first_is_id || !second_is_id;
    }
    std::vector<bool> seen;
    std::uint64_t count = 0;
    file_source source(path);
    line_cutter cutter(source, path, 1 << 18, 16 << 20);
    text_chunk chunk;
    while (cutter.next(chunk))
        for_each_line(
            chunk.text(), chunk.first_line, path, format, [&](const line_fields& fields, const line_place& place) {
                if (fields.count < 2) place.fail(place.begin + place.length, "expected an id and a name");
                const std::string_view id_text = fields.at[id_first ? 0 : 1], name = fields.at[id_first ? 1 : 0];
                const std::uint64_t id = parse_id(id_text, 0, 0xffffffffU, place);
                if (name.empty()) place.fail(name, "the name is empty");
                need_utf8(name, place);
                if (id >= seen.size()) {
                    // Gaps are detected at the end; a wild id would size the list first.
                    if (id > 64 * (count + 16) + (1U << 20))
                        place.fail(id_text,
                            "the id " + std::string(id_text) + " leaves a gap: ids of a table are 0 … n − 1");
                    seen.resize(static_cast<std::size_t>(id) + 1);
                }
                if (seen[static_cast<std::size_t>(id)])
                    place.fail(id_text, "the id " + std::string(id_text) + " is repeated in this table");
                seen[static_cast<std::size_t>(id)] = true;
                ++count;
                visit(id, name, place);
            });
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
