// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/column_roles.hpp>
#include <gneiss/io/import/detail/planned_source.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/options.hpp>

// The plan of a text of edges: comments, header, delimiter and columns, by the options and the first lines.
namespace gneiss::importing::detail {

/// Returns the position of a column by its number or name.
[[nodiscard]] inline std::size_t find_column(
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

/// Returns the position of the line of edges that gives the columns: the first one or, if wrong lines may be skipped,
/// the first typical one.
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

/// Returns the fields of a line; those beyond the capacity are missing.
[[nodiscard]] inline std::vector<std::string> fields_of(
    std::string_view line, const text_format& text, const line_place& place) {
    line_fields fields;
    split_line(line, text, place, fields);
    return {fields.at.begin(),
        fields.at.begin() + static_cast<std::ptrdiff_t>(std::min(fields.count, line_fields::capacity))};
}

/// Returns a line for a message, shortened and cleaned.
[[nodiscard]] inline std::string quoted_line(const std::string& line) {
    std::string shown = line.substr(0, 100);
    std::ranges::replace_if(shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    return "\"" + shown + (line.size() > 100 ? "…" : "") + "\"";
}

/// Takes a first line that is one number, before lines of several fields, for the number of edges (OpenKE): removes it
/// from the lines and returns its line number; 0: there is none.
inline std::uint64_t take_count_line(planned_source& planned, first_lines& first, const import_options& options) {
    if (first.lines.size() < 2 || options.delimiter) return 0;
    const std::string_view digits = trimmed(first.lines[0]);
    if (!is_integer(digits) || trimmed(first.lines[1]).find_first_of(" \t,;") == std::string_view::npos) return 0;
    std::uint64_t edges = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), edges);
    planned.entries = edges;
    const std::uint64_t number = first.numbers[0];
    first.lines.erase(first.lines.begin());
    first.numbers.erase(first.numbers.begin());
    return number;
}

/// Returns true for the name of a file of OpenKE, whose columns are head, tail and relation.
[[nodiscard]] inline bool is_openke(const std::filesystem::path& path) {
    const std::string name = (is_packed(path) ? path.stem() : path).stem().string();
    return name == "train2id" || name == "valid2id" || name == "test2id";
}

/// Throws for columns that are given twice.
inline void check_columns(const text_format& text) {
    if (text.source == text.destination || text.relation == text.source || text.relation == text.destination)
        throw error(errc::invalid_argument,
            "--columns names column " + std::to_string(text.source == text.destination ? text.source : *text.relation) +
                " twice: head, relation and tail are different columns");
}

/// Throws for a line of a number of fields from which the columns cannot be guessed.
[[noreturn]] inline void fail_columns(std::size_t count, std::span<const std::string> lines, const text_format& text,
    const line_place& place, bool header) {
    const std::string found = "found " + std::to_string(count) + (count == 1 ? " field" : " fields");
    const std::string_view line(place.begin, place.length);
    if (line.find("::") != std::string_view::npos && count < 2)
        place.fail(place.begin, found + ": if '::' separates them, use --delimiter : --columns 0,2");
    if (const std::size_t arrow = line.find("->"); arrow != std::string_view::npos && arrow != 0 && count < 2)
        place.fail(place.begin,
            found + ": if '->' separates them, put a tab there first, by sed -E 's/ *-> */\\t/' < OLD > NEW");
    if (count < 2)
        place.fail(place.begin,
            found +
                " where 2 (source, destination) or 3 (source, relation, destination) are "
                "expected: is the delimiter right?");
    std::size_t least = count, most = count;
    for (const std::string& each : lines) {
        line_fields fields;
        try {
            split_line(each, text, {place.path, 0, each.data(), each.size()}, fields);
        } catch (const error&) { // reported with its place when edges are read
            continue;
        }
        least = std::min(least, fields.count);
        most = std::max(most, fields.count);
    }
    if (least != most)
        place.fail(place.begin,
            found + ", and the first lines have " + std::to_string(least) + " to " + std::to_string(most) +
                ": write one edge a line; names with blanks need tabs or commas between the fields");
    if (!header && find_ends(fields_of(std::string_view(place.begin, place.length), text, place)))
        place.fail(place.begin, found + ", and this line looks like a header: import with --header");
    place.fail(place.begin,
        found +
            ": name the columns of head and tail, or of head, relation and tail, such as --columns 0,1 or "
            "0,1,2; the other fields are not read");
}

/// Chooses the columns of head, relation and tail: by the options, by a header that names both ends, or by their
/// number.
/// Returns true if a header named them.
inline bool choose_columns(text_format& text, std::size_t count, const planned_source& planned,
    const import_options& options, const std::vector<std::string>& names, const line_place& header_place) {
    if (!options.columns.empty()) {
        if (options.columns.size() > 3 || options.columns.size() < 2)
            throw error(errc::invalid_argument, "columns are source,relation,destination or source,destination");
        text.source = find_column(options.columns.front(), names, header_place);
        text.destination = find_column(options.columns.back(), names, header_place);
        if (options.columns.size() == 3) text.relation = find_column(options.columns[1], names, header_place);
        check_columns(text);
        return false;
    }
    if (const auto ends = find_ends(names)) {
        text.source = ends->head;
        text.destination = ends->tail;
        for (std::size_t i = 0; i < names.size() && !text.relation; ++i)
            if (is_one_of(column_word(names[i]), relation_words) || lowered(names[i]) == ":type") text.relation = i;
        if (!text.relation && names.size() == 3 && text.source + text.destination == 2 &&
            !is_one_of(column_word(names[1]), attribute_words))
            text.relation = 1;
        return true;
    }
    text.source = 0;
    text.destination = 1;
    if (count == 3 && planned.format != edge_format::edge_list) {
        text.relation = is_openke(planned.source.path) ? 2 : 1;
        text.destination = 3 - *text.relation;
    }
    return false;
}

/// Returns true if a field of one line and that of another begin with the same letters, as names of nodes do.
[[nodiscard]] inline bool resembles(const std::vector<std::string>& names, const std::vector<std::string>& data) {
    const auto letters = [](std::string_view field) {
        return lowered(field.substr(0, std::min(field.find_first_of("0123456789_-"), field.size())));
    };
    if (names == data) return false; // a file of one line
    for (std::size_t i = 0; i < std::min(names.size(), data.size()); ++i)
        if (!letters(names[i]).empty() && letters(names[i]) == letters(data[i])) return true;
    return false;
}

/// Adds a warning of a header: one that was read as an edge, one of numbers, or one that calls a column otherwise.
inline void doubt_header(planned_source& planned, const std::vector<std::string>& names, const std::string& line,
    const std::vector<std::string>& data, bool given, bool named) {
    const text_format& text = planned.text;
    if (given) {
        const auto numbers = [](const std::vector<std::string>& fields) {
            return std::ranges::all_of(fields, is_number);
        };
        if (numbers(names) && numbers(data))
            planned.doubts.push_back("the first line, " + quoted_line(line) +
                ", was read as a header and consists of numbers: if it is an edge, import without --header");
    } else if (find_ends(names) && !resembles(names, data)) {
        planned.header_like = line;
    }
    if (named || (!given && planned.header_like.empty())) return;
    for (const auto& [role, column] :
        {std::pair{"relation", text.relation}, std::pair{"tail", std::optional(text.destination)}})
        if (column && *column < names.size() && is_one_of(column_word(names[*column]), attribute_words))
            planned.doubts.push_back("field " + std::to_string(*column) + ", read as the " + role + ", is called " +
                excerpt(names[*column]) +
                " by the first line: if it is one, name the columns of the edges, such as --columns 0,1");
}

/// Returns true for a first line of words before edges whose ends, or whose tails after a relation, are numbers.
[[nodiscard]] inline bool names_numbers(
    const std::vector<std::string>& names, const sampled_edges& later, const text_format& text) {
    if (later.count < 2 || std::max(text.source, text.destination) >= names.size() ||
        is_number(names[text.destination]))
        return false;
    return (later.head.integers && later.tail.integers && !is_number(names[text.source])) ||
        (later.triples && later.tail.numbers);
}

/// Adds a warning of fields that are not read, of an edge list whose columns are not given: all after the first two, if
/// they are more than networkx's empty attributes.
inline void doubt_extra_fields(planned_source& planned, const std::vector<std::string>& fields, std::size_t count) {
    if (count <= 2 || (count == 3 && fields[2] == "{}")) return;
    const std::string others =
        count == 3 ? "field after them, " : "other " + std::to_string(count - 2) + " fields, such as ";
    planned.doubts.push_back("fields 0 and 1 were read as head and tail, and the " + others + excerpt(fields[2]) +
        (count == 3 ? ", was" : ", were") + " not read: if that is right, say so by --columns 0,1");
}

/// Adds a warning if KONECT's first comment says that heads and tails are two kinds of nodes, and a name of both is one
/// node.
inline void doubt_konect(planned_source& planned, const std::string& comment, const sampled_edges& edges) {
    const std::string common = edges.common_value();
    if (comment.starts_with("% bip") && !common.empty())
        planned.doubts.push_back("heads and tails are two kinds of nodes by the comment " + quoted_line(comment) +
            ", and names such as " + excerpt(common) + " of both are one node: import with --bipartite");
}

/// Adds a warning if a header names two kinds of nodes and the same name occurs in both.
inline void doubt_kinds(planned_source& planned, const std::vector<std::string>& names, const sampled_edges& edges) {
    const text_format& text = planned.text;
    const std::string common = edges.common_value();
    if (common.empty() || std::max(text.source, text.destination) >= names.size()) return;
    const std::string &head = names[text.source], &tail = names[text.destination];
    const std::string head_word = column_word(head), tail_word = column_word(tail);
    if (head_word != tail_word && is_one_of(head_word, kind_words) && is_one_of(tail_word, kind_words))
        planned.doubts.push_back("the header names two kinds of nodes, " + head + " and " + tail +
            ", and names such as " + excerpt(common) +
            " of both are one node: if they are two, import with --bipartite");
}

inline void plan_text(planned_source& planned, const import_options& options) {
    text_format& text = planned.text;
    const bool by_name = std::any_of(
        options.columns.begin(), options.columns.end(), [](const std::string& column) { return !is_integer(column); });
    const bool header = options.header || by_name;
    text.comment = options.comment.value_or('\0');
    text.hash_comments = !options.comment;
    constexpr std::size_t sampled_lines = 1000;
    const auto source = planned.open();
    std::string comment; // the first one
    bool block = text.hash_comments, edges_begun = false;
    first_lines first(
        *source, planned.source.path,
        [&](std::string_view some) {
            block = block && opens_comment(some);
            if (!block && (text.comment == '\0' || some[0] != text.comment)) {
                edges_begun = true;
                return false;
            }
            if (block || (header && !edges_begun)) ++planned.comments;
            if (comment.empty()) comment = some;
            return true;
        },
        sampled_lines);
    if (first.lines.empty())
        throw error(errc::invalid_format,
            comment.empty() ? "this file contains no edges" : "this file contains only comments",
            {.path = planned.source.path});
    for (std::size_t i = 0; i < first.lines.size(); ++i)
        refuse_inner_cr(
            first.lines[i], {&planned.source.path, first.numbers[i], first.lines[i].data(), first.lines[i].size()});
    const std::uint64_t counted = header ? 0 : take_count_line(planned, first, options);
    const std::string line = first.lines[0];
    const std::uint64_t number = first.numbers[0];
    text.skip_lines = header ? number : text.hash_comments ? number - 1 : counted;

    // Lines of edges: after the header, and without those that may be comments if others are left.
    std::vector<std::string> lines;
    std::vector<std::uint64_t> numbers;
    const auto take = [&](bool marked) {
        for (std::size_t i = header && first.lines.size() > 1 ? 1 : 0; i < first.lines.size(); ++i)
            if (marked || !text.hash_comments || !is_comment_mark(first.lines[i][0])) {
                lines.push_back(first.lines[i]);
                numbers.push_back(first.numbers[i]);
            }
    };
    take(false);
    if (lines.empty()) take(true);
    const std::size_t at = line_of_columns(lines, planned, options);
    const std::string data = lines[at];
    set_delimiter(text, data, planned.format, options);

    const line_place place{&planned.source.path, number, line.data(), line.size()};
    const line_place data_place{&planned.source.path, numbers[at], data.data(), data.size()};
    line_fields split;
    split_line(data, text, data_place, split);
    const std::size_t count = split.count;
    const std::vector<std::string> fields = fields_of(data, text, data_place);
    const bool dictionary = options.columns.empty() && text.delimiter == ' ' && count > 2 && fields[2][0] == '{' &&
        data.back() == '}'; // of networkx
    if (dictionary) planned.format = edge_format::edge_list;
    const auto readable_fields = [&](const std::string& some) -> std::vector<std::string> {
        try {
            return fields_of(some, text, {&planned.source.path, 0, some.data(), some.size()});
        } catch (const error&) { // reported with its place when edges are read
            return {};
        }
    };
    const std::vector<std::string> names =
        header ? fields_of(line, text, place) : readable_fields(line); // of the first line
    const bool named =
        choose_columns(text, count, planned, options, header ? names : std::vector<std::string>(), place);
    if (options.columns.empty() && !named && (count < 2 || (count > 3 && planned.format != edge_format::edge_list)))
        fail_columns(count, lines, text, data_place, header);
    text.fields = dictionary ? 0 : count;
    text.any_fields = text.delimiter == ' ' && (planned.format == edge_format::edge_list || !options.columns.empty());
    const auto integer = [&](std::size_t i) { return i < fields.size() && is_integer(fields[i]); };
    planned.integer_ids = integer(text.source) && integer(text.destination);
    planned.integer_relation = text.relation && integer(*text.relation);
    const bool ordered = options.columns.empty() && !named && text.relation == 2; // by the file's name
    planned.guessed = options.columns.empty() && !named && text.relation.has_value() && !ordered;
    if (options.bipartite)
        planned.tail_prefix = (header && text.destination < names.size() ? names[text.destination] : "tail") + ":";

    if (names.size() == count)
        doubt_header(planned, names, line, lines[0] == line && lines.size() > 1 ? readable_fields(lines[1]) : fields,
            header, named);
    if (!header && planned.header_like.empty() && lines[0] == line &&
        names_numbers(names, sampled_edges(std::span<const std::string>(lines).subspan(1), text), text))
        planned.header_like = line;
    const std::size_t skipped = !planned.header_like.empty() && lines[0] == line ? 1 : 0; // a header hides nothing
    const sampled_edges edges(std::span<const std::string>(lines).subspan(skipped), text);
    if (options.columns.empty() && !named && !ordered)
        if (const std::string doubt = doubt_roles(edges, text); !doubt.empty()) planned.doubts.push_back(doubt);
    if (const std::string doubt = doubt_quotes(edges, text); !doubt.empty()) planned.doubts.push_back(doubt);
    if (options.columns.empty() && !named && planned.format == edge_format::edge_list && !edges.tail.is_mark())
        doubt_extra_fields(planned, fields, count);
    if ((header || !planned.header_like.empty()) && !options.bipartite) doubt_kinds(planned, names, edges);
    if (!options.bipartite) doubt_konect(planned, comment, edges);

    const auto role = [&](const char* name, std::size_t field) {
        return std::string(name) + " " + (field < fields.size() ? excerpt(fields[field]) : "missing");
    };
    planned.columns = quoted_line(data) + " is " + role("head", text.source) +
        (text.relation ? ", " + role("relation", *text.relation) : "") + ", " + role("tail", text.destination) +
        (planned.tail_prefix.empty() || text.destination >= fields.size()
                ? ""
                : ", the node " + excerpt(planned.tail_prefix + std::string(fields[text.destination]))) +
        (header && first.lines.size() > 1 ? ", after the header " + quoted_line(line) : "");
    if (ordered) planned.columns += ": the order of OpenKE, by the file's name";
    if (named && names.size() > (text.relation ? 3U : 2U)) {
        planned.columns += ", without";
        for (std::size_t i = 0; i < names.size(); ++i)
            if (i != text.source && i != text.destination && text.relation != i)
                planned.columns += " " + excerpt(names[i]);
    }
    if (!comment.empty()) planned.columns += ", after comments, the first of which is " + quoted_line(comment);
}

} // namespace gneiss::importing::detail
