// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/import/planned_source.hpp>

namespace gneiss::importing::detail {

inline std::size_t find_column(
    const std::string& wanted, const std::vector<std::string>& names, const line_place& place) {
    if (is_integer(wanted)) {
        std::size_t position = line_fields::capacity;
        std::from_chars(wanted.data(), wanted.data() + wanted.size(), position);
        if (position >= line_fields::capacity)
            throw error(errc::invalid_argument, "a column position is between 0 and 63, not " + wanted);
        return position;
    }
    const auto found = std::find(names.begin(), names.end(), wanted);
    if (found == names.end()) {
        std::string all;
        for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
        throw error(
            errc::not_found, "no column is named '" + wanted + "'; the header names: " + all, place.at(place.begin));
    }
    return static_cast<std::size_t>(found - names.begin());
}

/// Returns true if a header may use this word for an end of an edge.
inline bool names_an_end(std::string_view field) {
    std::string word = lowered(field);
    for (const char* suffix : {"_id", "id"})
        if (word.size() > 3 && word.ends_with(suffix)) word.resize(word.size() - std::string_view(suffix).size());
    constexpr std::string_view words[] = {"source", "src", "head", "from", "subject", "target", "destination", "dst",
        "dest", "tail", "to", "object", "node1", "node2", "node_1", "node_2", "user", "item", "product", "movie"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

/// Returns true for a decimal number, also with a fraction.
[[nodiscard]] inline bool is_number(std::string_view field) noexcept {
    double value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    return failure == std::errc{} && end == field.data() + field.size();
}

/// Returns the reason why three fields may not be source, relation and destination, by the first lines; empty: there is
/// none.
[[nodiscard]] inline std::string doubt_triples(std::span<const std::string> lines, const text_format& text) {
    constexpr const char* advice = ": if it is not, name the columns, such as --columns 0,1 for pairs or 0,2,1";
    std::set<std::string, std::less<>> relations, tails;
    bool integer_heads = true, integer_tails = true, number_tails = true;
    std::string tail;
    std::size_t count = 0;
    const std::filesystem::path none;
    for (const std::string& line : lines) {
        line_fields fields;
        try {
            split_line(line, text, {&none, 0, line.data(), line.size()}, fields);
        } catch (const error&) { // reported with its place when edges are read
            continue;
        }
        if (fields.count != 3) continue;
        ++count;
        integer_heads = integer_heads && is_integer(fields.at[0]);
        integer_tails = integer_tails && is_integer(fields.at[2]);
        number_tails = number_tails && is_number(fields.at[2]);
        relations.emplace(fields.at[1]);
        tails.emplace(fields.at[2]);
        if (tail.empty()) tail = fields.at[2];
    }
    if (count == 0) return {};
    if (number_tails && !(integer_tails && integer_heads))
        return "field 2, read as the tail, which is a node, is a number in each of the first lines, such as " +
               excerpt(tail) + advice;
    if (count >= 20 && relations.size() > 2 * tails.size() && relations.size() * 10 > count)
        return "field 1, read as the relation, has " + std::to_string(relations.size()) + " values in the first " +
               std::to_string(count) + " lines, and field 2, read as the tail, " + std::to_string(tails.size()) +
               advice;
    return {};
}

/// Sets delimiter and quotes by a line of edges.
inline void set_delimiter(text_format& text, std::string_view line, edge_format format, const import_options& options) {
    const auto has = [&](const char* characters) { return line.find_first_of(characters) != std::string_view::npos; };
    if (options.delimiter)
        text.delimiter = *options.delimiter;
    else if (format == edge_format::csv)
        text.delimiter = !has(",") && has(";") ? ';' : ',';
    else if (format == edge_format::edge_list)
        text.delimiter = !has(" \t") && has(",") ? ',' : ' ';
    else if (options.format == edge_format::tsv || has("\t"))
        text.delimiter = '\t';
    else
        text.delimiter = !has(" ") && has(",") ? ',' : ' ';
    text.quotes = format == edge_format::csv || text.delimiter == ',' || text.delimiter == ';';
}

/// Returns the position of the line of edges that gives the columns: the first one or, if wrong lines may be skipped, the
/// first typical one.
[[nodiscard]] inline std::size_t line_of_columns(
    std::span<const std::string> lines, const planned_source& planned, const import_options& options) {
    const bool any_count = !options.columns.empty() || planned.format == edge_format::edge_list;
    line_fields fields;
    return first_typical_line(lines.size(), options.skip_bad, [&](std::size_t by, std::size_t at) -> std::size_t {
        text_format text = planned.text, own = planned.text;
        set_delimiter(text, lines[by], planned.format, options);
        set_delimiter(own, lines[at], planned.format, options);
        if (own.delimiter != text.delimiter) return 0;
        try {
            split_line(lines[at], text, {&planned.source.path, 0, lines[at].data(), lines[at].size()}, fields);
        } catch (const error&) { // reported with its place when edges are read
            return 0;
        }
        if (fields.count < 2 || (fields.count > 3 && !any_count)) return 0;
        const bool numbers = options.ids == id_kind::integer && options.columns.empty();
        const std::size_t tail = planned.format == edge_format::edge_list ? 1 : fields.count - 1;
        return numbers && !(is_integer(fields.at[0]) && is_integer(fields.at[tail])) ? 0 : fields.count;
    });
}

inline void plan_text(planned_source& planned, const import_options& options) {
    text_format& text = planned.text;
    const bool list = planned.format == edge_format::edge_list;
    const bool names = std::any_of(
        options.columns.begin(), options.columns.end(), [](const std::string& column) { return !is_integer(column); });
    const bool header = options.header || names;
    constexpr std::size_t sampled_lines = 1000;
    const auto source = planned.open();
    const std::string comments = options.comment ? std::string(1, *options.comment) : "#%";
    first_lines first(*source, planned.source.path, options.comment || list ? comments : "", sampled_lines);
    text.comment = options.comment.value_or(list ? '#' : '\0');
    if (list && !options.comment) text.other_comment = '%';
    if (first.lines.empty())
        throw error(errc::invalid_format, "this file contains no edges", {.path = planned.source.path});
    // SNAP and KONECT begin with comment lines, unlike triples: a first line "# …" means that '#' starts a comment.
    if (const std::string& top = first.lines[0];
        !options.comment && (top[0] == '#' || top[0] == '%') && (top.size() == 1 || top[1] == ' ' || top[1] == '\t')) {
        text.comment = top[0];
        const auto again = planned.open();
        first = first_lines(*again, planned.source.path, std::string(1, text.comment), sampled_lines);
        if (first.lines.empty())
            throw error(errc::invalid_format, "this file contains only comments", {.path = planned.source.path});
    }
    const std::string line = first.lines[0];
    const std::uint64_t number = first.numbers[0];
    const std::size_t begin = header && first.lines.size() > 1 ? 1 : 0; // of edges
    const std::span<const std::string> lines = std::span(first.lines).subspan(begin);
    const std::size_t at = line_of_columns(lines, planned, options);
    const std::string data = lines[at];
    set_delimiter(text, data, planned.format, options);
    text.skip_lines = header ? number : 0;

    const line_place place{&planned.source.path, number, line.data(), line.size()};
    line_fields fields;
    if (names) split_line(line, text, place, fields);
    std::vector<std::string> header_names;
    for (std::size_t i = 0; i < std::min(fields.count, line_fields::capacity); ++i)
        header_names.emplace_back(fields.at[i]);
    const line_place data_place{&planned.source.path, first.numbers[begin + at], data.data(), data.size()};
    split_line(data, text, data_place, fields);
    const std::size_t count = fields.count;
    if (!options.columns.empty()) {
        if (options.columns.size() > 3 || options.columns.size() < 2)
            throw error(errc::invalid_argument, "columns are source,relation,destination or source,destination");
        text.source = find_column(options.columns.front(), header_names, place);
        text.destination = find_column(options.columns.back(), header_names, place);
        if (options.columns.size() == 3) text.relation = find_column(options.columns[1], header_names, place);
    } else if (list || count == 2) {
        text.source = 0;
        text.destination = 1;
    } else if (count == 3) {
        text.relation = 1;
        text.destination = 2;
    } else if (count < 2) {
        data_place.fail(data.data(),
            "found 1 field where 2 (source, destination) or 3 (source, relation, destination) are "
            "expected: is the delimiter right?");
    } else {
        data_place.fail(data.data(),
            "found " + std::to_string(count) +
                " fields: name the columns of head and tail, or of head, relation and tail, such as --columns 0,1 or "
                "0,1,2");
    }
    text.fields = text.delimiter == ' ' ? 0 : count;
    const auto integer = [&](std::size_t i) {
        return i < count && i < line_fields::capacity && is_integer(fields.at[i]);
    };
    planned.integer_ids = integer(text.source) && integer(text.destination);
    planned.integer_relation = text.relation && integer(*text.relation);
    if (!header && std::max(text.source, text.destination) < std::min(count, line_fields::capacity) &&
        names_an_end(fields.at[text.source]) && names_an_end(fields.at[text.destination]))
        planned.header_like = data;
    const auto role = [&](const char* name, std::size_t field) {
        return std::string(name) + " " +
               (field < std::min(count, line_fields::capacity) ? excerpt(fields.at[field]) : "missing");
    };
    const auto quoted = [](const std::string& all) {
        std::string shown = all.substr(0, 100);
        std::ranges::replace_if(
            shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
        return "\"" + shown + (all.size() > 100 ? "…" : "") + "\"";
    };
    planned.columns = quoted(data) + " is " + role("head", text.source) +
                      (text.relation ? ", " + role("relation", *text.relation) : "") + ", " +
                      role("tail", text.destination) + (begin != 0 ? ", after the header " + quoted(line) : "");
    planned.guessed = options.columns.empty() && text.relation.has_value();
    if (planned.guessed) planned.doubt = doubt_triples(lines, text);
}

} // namespace gneiss::importing::detail
