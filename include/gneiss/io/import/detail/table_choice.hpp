// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/name_table.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/options.hpp>

// Decides whether the integers of edges are the ids of a table of names, or its names.
namespace gneiss::importing {

/// Values of edges, as text.
using value_set = std::set<std::string, std::less<>>;

/// Returns source, relation and destination of the first edges of a text source, up to `limit` and `sample_bytes`; the
/// relation of a pair is empty.
[[nodiscard]] inline std::vector<std::array<std::string, 3>> first_edges(
    const planned_source& planned, std::size_t limit) {
    std::vector<std::array<std::string, 3>> edges;
    const auto source = planned.open();
    line_cutter cutter(*source, planned.source.path, 1 << 16, 16 << 20);
    text_chunk chunk;
    std::size_t bytes = 0;
    while (edges.size() < limit && bytes < sample_bytes && cutter.next(chunk))
        for_each_edge_line(
            chunk.text(), chunk.first_line, planned.source.path, planned.text,
            [&](std::string_view from, std::string_view relation, std::string_view to, const line_place&) {
                if (edges.size() == limit || bytes >= sample_bytes) return;
                edges.push_back({std::string(from), std::string(relation), std::string(to)});
                bytes += from.size() + relation.size() + to.size();
            },
            [](const error&) { return true; }, [] {}); // reported when the edges are read
    return edges;
}

/// Returns the values of some fields of edges.
[[nodiscard]] inline value_set values_of(
    std::span<const std::array<std::string, 3>> edges, std::initializer_list<std::size_t> fields) {
    value_set values;
    for (const auto& edge : edges)
        for (const std::size_t field : fields) values.insert(edge[field]);
    return values;
}

/// Relation of values to a table of names.
struct table_match {
    std::uint64_t size = 0; ///< names in the table
    std::string beyond{};   ///< a value that is not an id; empty: all are ids
    std::string unnamed{};  ///< a value that is not a name; empty: all are names
    bool same = true;       ///< each value that is an id is its own name

    /// True if the values are ids and nothing else, or it makes no difference.
    [[nodiscard]] bool are_ids() const noexcept { return beyond.empty() && (!unnamed.empty() || same); }
    /// True if the values are names and not ids.
    [[nodiscard]] bool are_names() const noexcept { return !beyond.empty() && unnamed.empty(); }
    /// True if the values may be ids as well as names.
    [[nodiscard]] bool ambiguous() const noexcept { return beyond.empty() && unnamed.empty() && !same; }
};

/// Returns a value that is not one of the ids 0 … `size` − 1; empty: there is none.
[[nodiscard]] inline std::string find_beyond(const value_set& values, std::uint64_t size) {
    for (const std::string& value : values)
        if (!is_integer(value) || (value.size() > 1 && value[0] == '0') || value.size() > 10 ||
            std::stoull(value) >= size)
            return value;
    return {};
}

/// Compares values with a table. O(table).
[[nodiscard]] inline table_match match_table(const std::filesystem::path& path, bool header, const value_set& values) {
    table_match result;
    value_set missing = values;
    result.size = read_name_table(
        path,
        [&](std::uint64_t id, std::string_view name, const line_place&) {
            if (const auto found = missing.find(name); found != missing.end()) missing.erase(found);
            if (result.same && name != std::to_string(id)) result.same = !values.contains(std::to_string(id));
        },
        header);
    if (!missing.empty()) result.unnamed = *missing.begin();
    result.beyond = find_beyond(values, result.size);
    return result;
}

/// Refuses integers of edges that a table does not have. Precondition: the values are neither its ids nor its names.
[[noreturn]] inline void refuse_table(
    const std::filesystem::path& table, const std::filesystem::path& edges, const table_match& match) {
    throw error(errc::invalid_format,
        "has the ids 0 … " + std::to_string(match.size - 1) + ", and " + excerpt(match.beyond) + " of " +
            edges.string() + " is none of them" + (match.unnamed.empty() ? "" : ", nor a name") +
            ": if the edges have names, leave the table out by --ids string",
        {.path = table});
}

/// Chooses, for a directory, the tables that give names to the integers of its edges: `entities` and `relations` are
/// those found there, empty for none. Integers that are names of a table stay names. Sets the columns of triples of ids
/// in the order head, tail, relation if no other order fits the tables.
///
/// \param ids  the layout says that edges have ids
/// Throws errc::invalid_format if integers may be ids or names, or are neither.
inline void choose_tables(
    import_options& options, std::filesystem::path entities, std::filesystem::path relations, bool ids) {
    if (options.ids == id_kind::string) return;
    if (!options.entities.empty()) entities.clear();
    if (!options.relations.empty()) relations.clear();
    planned_source train = plan_source(options.sources[0], options);
    const bool text = !train.array && !train.source.compute;
    if (!text) {
        if (options.entities.empty()) options.entities = entities;
        if (options.relations.empty() && train.text.relation) options.relations = relations;
        return;
    }
    auto edges = first_edges(train, 1000);
    const auto match = [&](const std::filesystem::path& table, std::initializer_list<std::size_t> fields) {
        return match_table(table, options.header, values_of(edges, fields));
    };
    ids = ids || options.ids == id_kind::integer;
    const bool numbered = train.text.relation && train.integer_relation;
    table_match nodes, types;
    if (!entities.empty() && train.integer_ids) nodes = match(entities, {0, 2});
    if (!relations.empty() && numbered) types = match(relations, {1});
    if (nodes.size != 0 && types.size != 0 && options.columns.empty()) { // head, relation, tail or head, tail, relation
        const bool other = find_beyond(values_of(edges, {2}), types.size).empty() &&
            find_beyond(values_of(edges, {0, 1}), nodes.size).empty();
        if (other && (!types.beyond.empty() || !nodes.beyond.empty())) {
            options.columns = {"0", train.text.relation == 1 ? "2" : "1", train.text.relation == 1 ? "1" : "2"};
            train = plan_source(options.sources[0], options);
            edges = first_edges(train, 1000);
            nodes = match(entities, {0, 2});
            types = match(relations, {1});
        } else if (other && train.text.relation == 1 &&
            relations.filename().string().find("2id") != std::string::npos) {
            options.warnings.push_back(train.source.path.string() +
                ": field 1 was read as the relation; if field 2 is the relation, as in OpenKE, add --columns 0,2,1");
        }
    }
    if (nodes.size != 0) {
        if (!nodes.beyond.empty() && (ids || !nodes.unnamed.empty())) refuse_table(entities, train.source.path, nodes);
        const bool named =
            nodes.are_names() || (nodes.ambiguous() && ((train.text.relation && !numbered) || types.are_names()));
        if (nodes.ambiguous() && !named && !ids && !(types.size != 0 && types.are_ids()))
            throw error(errc::invalid_format,
                "has names that are integers: those of " + train.source.path.string() +
                    " may be its ids or its names; choose --ids int (ids) or --ids string (names)",
                {.path = entities});
        if (ids || !named) options.entities = entities;
    }
    if (types.size != 0) {
        if (!types.beyond.empty() && (ids || !types.unnamed.empty())) refuse_table(relations, train.source.path, types);
        const bool node_ids = ids || (nodes.size != 0 && !options.entities.empty());
        if (types.are_ids() || (types.ambiguous() && node_ids))
            options.relations = relations;
        else if (types.ambiguous() && train.integer_ids && nodes.size == 0)
            throw error(errc::invalid_format,
                "has names that are integers: those of " + train.source.path.string() +
                    " may be its ids or its names; choose --ids int (ids) or --ids string (names)",
                {.path = relations});
    }
}

/// Adds warnings about the tables that name the integers of edges: which column was taken for the ids, and integers
/// that are names of the table, too. Throws errc::invalid_format for a text source with integers beyond the table's
/// ids.
inline void check_tables(import_options& options, const std::vector<planned_source>& sources) {
    for (const auto& table : {options.entities, options.relations})
        if (!table.empty())
            if (const auto layout = find_name_table_layout(table, options.header); !layout.doubt.empty())
                options.warnings.push_back(table.string() + ": " + layout.doubt);
    if (options.entities.empty() || options.ids == id_kind::string) return;
    for (const planned_source& source : sources) {
        if (source.array || source.source.compute || source.text.first_id != 0) continue;
        const auto edges = first_edges(source, 1000);
        const table_match match = match_table(options.entities, options.header, values_of(edges, {0, 2}));
        if (match.are_names()) refuse_table(options.entities, source.source.path, match);
        if (options.ids == id_kind::automatic && match.ambiguous() && source.text.relation && !source.integer_relation)
            options.warnings.push_back(options.entities.string() + ": has names that are integers: those of " +
                source.source.path.string() +
                " were read as its ids; if they are its names, leave the table out by --ids string");
        return;
    }
}

} // namespace gneiss::importing
