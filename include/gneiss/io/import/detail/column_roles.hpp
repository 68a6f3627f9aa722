// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/planned_source.hpp>
#include <gneiss/io/import/fields.hpp>

// Columns of a text of edges: what the words of a header and the values of the first lines say about them.
namespace gneiss::importing::detail {

/// Returns the word of a column name: without a comment mark or colon (Neo4j) before it, the kind of Neo4j's ids in
/// parentheses, and a suffix such as _id.
[[nodiscard]] inline std::string column_word(std::string_view name) {
    if (name.starts_with(':')) name = name.substr(1, name.find('(') - 1);
    while (!name.empty() && (name[0] == '#' || name[0] == '%' || name[0] == ' ')) name.remove_prefix(1);
    std::string word = lowered(name);
    while (!word.empty() && word.back() == ' ') word.pop_back();
    for (const std::string_view suffix : {"_id", "id", "_node", "node"})
        if (word.size() > suffix.size() + 1 && word.ends_with(suffix)) word.resize(word.size() - suffix.size());
    return word;
}

/// Returns true if `word` is one of `words`.
[[nodiscard]] inline bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
}

inline constexpr std::string_view head_words[] = {"source", "src", "head", "from", "subject", "start"};
inline constexpr std::string_view tail_words[] = {
    "target", "destination", "dst", "dest", "tail", "to", "object", "end"};
inline constexpr std::string_view relation_words[] = {"relation", "rel", "predicate", "relationship", "property",
    "relation_type", "rel_type", "edge_type", "relationship_type", "relation_name"};
/// Kinds of nodes, each of one kind in a column.
inline constexpr std::string_view kind_words[] = {"user", "customer", "buyer", "reviewer", "reader", "listener",
    "viewer", "patient", "student", "person", "author", "item", "product", "movie", "film", "book", "song", "track",
    "artist", "album", "paper", "article", "page", "venue", "business", "restaurant", "game", "course", "disease",
    "drug", "gene", "tag", "word", "document", "query", "video", "post", "group", "hotel", "recipe", "beer", "city",
    "country", "company", "event"};
inline constexpr std::string_view node_words[] = {"node", "node1", "node2", "node_1", "node_2", "protein1", "protein2",
    "entity1", "entity2", "id1", "id2", "id_1", "id_2"};
/// Attributes of an edge.
inline constexpr std::string_view attribute_words[] = {"weight", "rating", "score", "count", "value", "time",
    "timestamp", "date", "year", "combined_score", "similarity", "distance", "strength", "created_at", "attributes"};

/// Columns of the ends that a header names.
struct named_ends {
    std::size_t head = 0, tail = 0; ///< positions
};

/// Returns the columns of head and tail by the words of a header: those of a head word and a tail word, else the first
/// two that name nodes. None: it does not name both.
[[nodiscard]] inline std::optional<named_ends> find_ends(const std::vector<std::string>& names) {
    std::optional<std::size_t> head, tail, first, second;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string word = column_word(names[i]);
        const bool is_head = is_one_of(word, head_words), is_tail = is_one_of(word, tail_words);
        if (is_head && !head) head = i;
        if (is_tail && !tail) tail = i;
        if (!is_head && !is_tail && !is_one_of(word, kind_words) && !is_one_of(word, node_words)) continue;
        if (!first)
            first = i;
        else if (!second)
            second = i;
    }
    if (head && tail) return named_ends{*head, *tail};
    if (first && second) return named_ends{*first, *second};
    return std::nullopt;
}

/// Returns true for a decimal number, also with a fraction.
[[nodiscard]] inline bool is_number(std::string_view field) noexcept {
    double value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    return failure == std::errc{} && end == field.data() + field.size();
}

/// Returns true for a date by year, month and day, in this order or the reverse, between '-', '/' or '.', also with a
/// time.
[[nodiscard]] inline bool is_date(std::string_view field) noexcept {
    std::size_t lengths[3] = {}, part = 0, at = 0;
    for (; at < field.size() && part < 3; ++at) {
        if (field[at] >= '0' && field[at] <= '9')
            ++lengths[part];
        else if (part < 2 && (field[at] == '-' || field[at] == '/' || field[at] == '.'))
            ++part;
        else
            break;
    }
    if (at < field.size() && field[at] != 'T' && field[at] != ' ') return false;
    const auto short_part = [](std::size_t length) { return length == 1 || length == 2; };
    return part == 2 && short_part(lengths[1]) &&
        ((lengths[0] == 4 && short_part(lengths[2])) || (short_part(lengths[0]) && lengths[2] == 4));
}

/// Returns true for a time from 1980 to 2049: integer seconds, or milli- or microseconds, since 1970.
[[nodiscard]] inline bool is_unix_time(std::string_view field) noexcept {
    std::uint64_t value = 0;
    const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (failure != std::errc{} || end != field.data() + field.size()) return false;
    for (const std::uint64_t unit : {1ULL, 1000ULL, 1000000ULL})
        if (value / unit >= 315'532'800 && value / unit < 2'524'608'000) return true;
    return false;
}

/// Values of a column in the first lines.
struct column_sample {
    std::set<std::string, std::less<>> values{};                                      ///< different ones
    std::string first{};                                                              ///< value of the first line
    bool integers = true, numbers = true, dates = true, times = true, objects = true; ///< all values are such
    bool index = true;  ///< values count the lines, from 0 or 1
    bool commas = true; ///< values end in a comma
    bool quotes = true; ///< values begin and end with a quote

    /// Returns true if the lines, three or more, have one value.
    [[nodiscard]] bool constant(std::size_t lines) const noexcept { return lines > 2 && values.size() == 1; }
    /// Returns true if the only value is an arrow or another mark between names.
    [[nodiscard]] bool is_mark() const noexcept {
        return values.size() == 1 && first.find_first_not_of("-=<>~|,:;") == std::string::npos;
    }
    /// Adds a value.
    void add(std::string_view field) {
        if (values.empty()) first = field;
        index =
            index && (first == "0" || first == "1") && field == std::to_string(values.size() + (first == "1" ? 1 : 0));
        if (!values.emplace(field).second) return;
        commas = commas && field.size() > 1 && field.back() == ',';
        quotes = quotes && field.size() > 1 && (field.front() == '\'' || field.front() == '"') &&
            field.back() == field.front();
        integers = integers && is_integer(field);
        numbers = numbers && is_number(field);
        dates = dates && is_date(field);
        times = times && is_unix_time(field);
        objects = objects && field.size() > 1 && field.front() == '{' && field.back() == '}';
    }
};

/// First lines of a text of edges, by column.
struct sampled_edges {
    column_sample head{}, relation{}, tail{}; ///< values of each role
    std::size_t count = 0;                    ///< lines
    bool triples = false;                     ///< lines have relations

    /// Splits the lines that have the columns of an edge.
    sampled_edges(std::span<const std::string> lines, const text_format& text) : triples(text.relation.has_value()) {
        const std::filesystem::path none;
        const std::size_t last = std::max({text.source, text.destination, text.relation.value_or(0)});
        line_fields fields;
        for (const std::string& line : lines) {
            try {
                split_line(line, text, {&none, 0, line.data(), line.size()}, fields);
            } catch (const error&) { // reported with its place when edges are read
                continue;
            }
            if (fields.count <= last || (text.fields != 0 && fields.count != text.fields)) continue;
            ++count;
            head.add(fields.at[text.source]);
            tail.add(fields.at[text.destination]);
            if (triples) relation.add(fields.at[*text.relation]);
        }
    }

    /// Returns a value that is both a head and a tail; empty: none is. Two columns of integers have the first one.
    [[nodiscard]] std::string common_value() const {
        for (const std::string& value : head.values)
            if (tail.values.contains(value)) return value;
        return count != 0 && head.integers && tail.integers ? head.first : std::string();
    }
};

/// Returns the sentence about quotes that are read as parts of the names. Empty: there are none.
[[nodiscard]] inline std::string doubt_quotes(const sampled_edges& edges, const text_format& text) {
    if (edges.count == 0 || !(edges.head.quotes || edges.tail.quotes)) return {};
    const std::string& name = (edges.head.quotes ? edges.head : edges.tail).first;
    const bool twofold = name[0] == '"';
    if (twofold && text.quotes) return {}; // within the quotes of CSV
    std::string remedy =
        twofold ? "remove them first, by tr -d '\"' < OLD > NEW" : "remove them first, by tr -d \"'\" < OLD > NEW";
    if (twofold && text.delimiter == '\t') remedy = "import with --format csv --delimiter tab";
    return "quotes around names, such as " + name.substr(0, 40) + ", were read as part of them: if they are not, " +
        remedy;
}

/// Returns the reason why columns whose roles were guessed may have others: times, weights and dates are neither nodes
/// nor relations. Empty: there is none.
[[nodiscard]] inline std::string doubt_roles(const sampled_edges& edges, const text_format& text) {
    if (edges.count == 0) return {};
    const std::string advice = edges.triples
        ? ": if it is not, name the columns, such as --columns 0,1 for pairs or 0,2,1"
        : ": if it is not, name the columns, such as --columns 0,2; ids are best written as integers";
    const auto doubt = [&](std::size_t field, const std::string& role, const char* what, const column_sample& column) {
        return "field " + std::to_string(field) + ", read as the " + role + ", is " + what +
            " in each of the first lines, such as " + excerpt(column.first) + advice;
    };
    const column_sample &head = edges.head, &relation = edges.relation, &tail = edges.tail;
    const std::string node_head = "head, which is a node", node_tail = "tail, which is a node";
    if (text.delimiter == ' ' && head.commas)
        return "each head in the first lines ends in a comma, such as " + excerpt(head.first) +
            ": if commas separate the fields, import with --delimiter comma";
    if (relation.is_mark() || tail.is_mark())
        return "field 1, read as the " + std::string(relation.is_mark() ? "relation" : "tail") + ", is " +
            excerpt(relation.is_mark() ? relation.first : tail.first) +
            " in each of the first lines: if it stands between head and tail, import with --columns 0,2";
    if (head.dates) return doubt(text.source, node_head, "a date", head);
    if (tail.dates) return doubt(text.destination, node_tail, "a date", tail);
    if (edges.triples && relation.dates) return doubt(*text.relation, "relation", "a date", relation);
    if (head.index && edges.count > 2 && (!tail.integers || (edges.triples && edges.count >= 20)))
        return "field " + std::to_string(text.source) +
            ", read as the head, counts the lines, as the index of a table does" +
            (edges.triples ? ": if it is one, name the columns, such as --columns 1,2"
                           : ": if it is one, the edges have no head here");
    if (edges.triples) {
        if (tail.objects) return doubt(text.destination, node_tail, "an object of attributes", tail);
        if (tail.times && !head.times) return doubt(text.destination, node_tail, "a time since 1970", tail);
        if (relation.times) return doubt(*text.relation, "relation", "a time since 1970", relation);
        if (tail.numbers && !(tail.integers && head.integers))
            return doubt(text.destination, node_tail, "a number", tail);
        if (relation.numbers && !relation.integers) return doubt(*text.relation, "relation", "a number", relation);
        if (tail.constant(edges.count)) return doubt(text.destination, node_tail, "the same", tail);
    }
    if (tail.numbers && !tail.integers) return doubt(text.destination, node_tail, "a number with a fraction", tail);
    if (head.numbers && !head.integers) return doubt(text.source, node_head, "a number with a fraction", head);
    if (const std::size_t many = relation.values.size(); edges.triples && edges.count >= 20 &&
        (5 * many > 4 * edges.count || (many > 2 * tail.values.size() && many * 10 > edges.count)))
        return "field " + std::to_string(*text.relation) + ", read as the relation, has " + std::to_string(many) +
            " values in the first " + std::to_string(edges.count) + " lines, and field " +
            std::to_string(text.destination) + ", read as the tail, " + std::to_string(tail.values.size()) + advice;
    return {};
}

} // namespace gneiss::importing::detail
