// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/io/import/detail/name_phase.hpp>
#include <gneiss/io/import/detail/name_table.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/node_arrays.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/detail/parse.hpp>
#include <gneiss/io/import/detail/relations.hpp>
#include <gneiss/io/import/detail/spill.hpp>
#include <gneiss/io/import/detail/state.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss::importing {

/// Returns the approximate bytes of all sources as text; compression shrinks text to a quarter or less. 1 GiB for an
/// unknown size.
[[nodiscard]] inline std::uint64_t input_bytes(const std::vector<planned_source>& sources) {
    std::uint64_t total = 0;
    for (const planned_source& s : sources) {
        std::error_code failed;
        const auto size = s.source.compute ? 12 * s.source.computed_edges
            : s.source.open                ? (s.source.bytes != 0 ? 4 * s.source.bytes : std::uint64_t{1} << 30)
                                           : std::filesystem::file_size(s.source.path, failed);
        if (!failed) total += is_packed(s.source.path) ? 4 * size : size;
    }
    return total;
}

/// Throws if a file does not have its declared number of entries.
inline void check_entries(const std::vector<planned_source>& sources, const parsed_edges& found) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
        if (!sources[i].entries || *sources[i].entries == found.source_entries[i]) continue;
        const planned_source& s = sources[i];
        if (s.format != edge_format::metis && s.format != edge_format::mtx && !s.array && !s.source.compute)
            throw error(errc::invalid_format,
                "the first line was read as the number of edges, " + std::to_string(*s.entries) + ", but " +
                    std::to_string(found.source_entries[i]) +
                    " follow: is the file complete? If the line is no count, skip it by --header",
                {.path = s.source.path, .line = s.text.skip_lines});
        throw error(errc::invalid_format,
            "declares " + std::to_string(*sources[i].entries) +
                (sources[i].format == edge_format::metis ? " neighbors (twice the edges), has " : " entries, has ") +
                std::to_string(found.source_entries[i]) + ": is the file complete?",
            {.path = sources[i].source.path});
    }
}

/// Throws for integer ids far beyond the edges, of which none is declared: nearly all rows would be nodes without
/// edges.
inline void check_density(const import_state& state, const parsed_edges& found, std::uint64_t declared) {
    const std::uint64_t edges = found.edges[0] + found.edges[1] + found.edges[2];
    constexpr std::uint64_t most_per_end = 16, margin = std::uint64_t{1} << 20;
    const std::uint64_t most = 2 * most_per_end * edges + margin;
    const auto& path = state.sources[0].source.path;
    if (state.ids.integer && found.largest_node > std::max(declared, most))
        throw error(errc::out_of_range,
            "the largest id is " + std::to_string(found.largest_node - 1) + ", and there are " + std::to_string(edges) +
                " edges: as row numbers, these ids are " + std::to_string(found.largest_node) +
                " nodes, nearly all without edges; import with --ids string, which numbers those that occur",
            {.path = path});
    if (state.ids.relations == relation_kind::integers && found.largest_relation > most)
        throw error(errc::out_of_range,
            "the largest relation is " + std::to_string(found.largest_relation - 1) + ", and there are " +
                std::to_string(edges) +
                " edges: if this column is no relation, name the columns, such as --columns 0,1",
            {.path = path});
}

/// Records the notes of lines in the journal, for `describe_lines`.
inline void save_notes(import_state& state, const std::vector<line_notes>& notes) {
    std::uint64_t comments = 0;
    for (std::size_t i = 0; i < notes.size(); ++i) {
        comments += state.sources[i].comments + notes[i].comments;
        const std::string of = std::to_string(i);
        for (const auto& [name, count, line] : {std::tuple{"uneven", notes[i].uneven, notes[i].first_uneven},
                 std::tuple{"padded", notes[i].padded, notes[i].first_padded},
                 std::tuple{"missing", notes[i].missing, notes[i].first_missing}}) {
            if (count == 0) continue;
            state.journal.set(name + of, count);
            state.journal.set(std::string("first_") + name + of, line);
        }
    }
    state.journal.set("comments", comments);
}

/// Collects the names of integer ids, and their hashes by id in work-node-hashes. Returns their number.
inline std::uint64_t read_entities(const import_state& state, partitioned_spill& names) {
    const import_options& options = state.options;
    const std::uint64_t seed = state.hash_seed();
    std::vector<std::uint64_t> run; // consecutive rows from `first` on
    std::uint64_t first = 0;
    plain_file file = plain_file::create(state.directory.work("node-hashes"));
    const auto flush = [&] {
        file.write_at(first * 8, std::as_bytes(std::span(run)));
        run.clear();
    };
    const auto take = [&](std::uint64_t id, std::string_view name) {
        const std::uint64_t hash = options.hash(name, seed);
        spill_name(names, name, hash);
        if (id != first + run.size() || run.size() == 8192) {
            flush();
            first = id;
        }
        run.push_back(hash);
    };
    std::uint64_t count = options.node_attributes.nodes;
    if (options.compute_name)
        for (std::uint64_t id = 0; id < count; ++id) take(id, options.compute_name(id));
    else
        count = read_name_table(
            options.entities, [&](std::uint64_t id, std::string_view name, const line_place&) { take(id, name); },
            options.header);
    flush();
    file.sync();
    if (count > most_nodes)
        throw error(errc::out_of_range, "more nodes than 32-bit ids can name", {.path = options.entities});
    return count;
}

/// Adds the names of integer relations. Returns their number.
inline std::uint64_t read_relations(const import_options& options, relation_dictionary& relations) {
    // Provisional ids are assigned in order, so names are added by id.
    std::vector<std::string> names = options.relation_names;
    if (names.empty())
        (void)read_name_table(
            options.relations,
            [&](std::uint64_t id, std::string_view name, const line_place&) {
                if (names.size() <= id) names.resize(static_cast<std::size_t>(id) + 1);
                names[static_cast<std::size_t>(id)] = name;
            },
            options.header);
    for (std::size_t id = 0; id < names.size(); ++id)
        if (relations.intern(names[id]) != id)
            throw error(
                errc::invalid_format, "the name '" + names[id] + "' is given to two ids", {.path = options.relations});
    return names.size();
}

/// Visits the nodes listed in text files: calls `meet(name, key, table, line)` for each, with tables counted from 1.
/// Returns the number of nodes that integer ids imply.
template <class Meet>
std::uint64_t meet_nodes(
    const import_node_attributes& data, const node_keys& keys, std::uint64_t memory, bad_lines& bad, Meet&& meet) {
    if (keys.by != line_key::field) return 0;
    std::uint64_t nodes = 0;
    std::size_t table = 0;
    for (const auto& path : text_tables(data)) {
        ++table;
        const node_text text(path, keys, memory, data.names_columns(path), data.id_column, &bad);
        text.for_each_node([&](std::uint64_t key, std::string_view name, const line_place& place) {
            if (keys.integer) nodes = std::max(nodes, key + 1);
            meet(name, key, table, place.line);
        });
    }
    return nodes;
}

/// Reads the sources: edges become records with provisional keys, names go to their heaps, and counts to the journal.
/// Cost: one pass over the sources.
template <executor E>
void read_sources(import_state& state, const E& executor) {
    const import_options& options = state.options;
    const std::vector<planned_source>& sources = state.sources;
    const std::uint64_t input = input_bytes(sources);
    if (!std::any_of(sources.begin(), sources.end(), [](const planned_source& s) { return bool(s.source.open); }))
        state.directory.need_disk(input / 2, "the edges");
    typename edge_parser<E>::setup setup{.options = &options,
        .sources = &sources,
        .integer_ids = state.ids.integer,
        .relations = state.ids.relations,
        .hash_seed = state.hash_seed(),
        .memory = parse_memory::plan(options.memory, executor.concurrency(), input),
        .bad = &state.bad};
    relation_dictionary relations(setup.memory.relations);
    std::optional<partitioned_spill> names;
    if (state.collects_names())
        names.emplace(state.directory.work("names"), setup.memory.heaps, setup.memory.heap_block);
    std::uint64_t table_nodes = 0;
    if (options.names_nodes()) table_nodes = setup.node_limit = read_entities(state, *names);
    if (const std::uint64_t declared = options.node_attributes.nodes; declared != 0) {
        if (table_nodes != 0 && table_nodes != declared)
            throw error(errc::invalid_format,
                "names " + std::to_string(table_nodes) + " nodes, but the node attributes have " +
                    std::to_string(declared),
                {.path = options.entities});
        table_nodes = setup.node_limit = declared;
    }
    for (const planned_source& source : sources) // the ids of a bipartite matrix are checked against rows and columns
        if (source.destination_shift != 0 && table_nodes != 0 && table_nodes < source.nodes)
            throw error(errc::invalid_format,
                "has " + std::to_string(source.nodes) + " nodes (rows and columns), the " +
                    (options.names_nodes() ? "table of names has " : "node attributes have ") +
                    std::to_string(table_nodes),
                {.path = source.source.path});
    if (!options.relations.empty() || !options.relation_names.empty())
        setup.relation_limit = read_relations(options, relations);

    std::array<append_file, 3> records{append_file(state.directory.records(0)), append_file(state.directory.records(1)),
        append_file(state.directory.records(2))};
    const parsed_edges found = edge_parser<E>(setup, records, names ? &*names : nullptr, relations, executor).run();
    check_entries(sources, found);
    name_overlap overlap;                               // of integers: the range of the edges counts
    std::array<line_notes, most_name_tables> missing{}; // of each table
    std::uint64_t declared = table_nodes;
    for (const planned_source& source : sources) declared = std::max(declared, source.nodes);
    check_density(state, found, declared);
    save_notes(state, found.notes);
    const std::uint64_t listed_nodes =
        meet_nodes(options.node_attributes, state.node_keys_below(setup.node_limit), options.memory / 8, state.bad,
            [&](std::string_view name, std::uint64_t key, std::size_t table, std::uint64_t line) {
                if (!state.ids.integer) {
                    if (is_missing_name(name) && missing[table - 1].missing++ == 0)
                        missing[table - 1].first_missing = line;
                    return spill_name(*names, name, key, table);
                }
                overlap.add(name, 1U << table | (key < found.largest_node ? 1U : 0U));
            });
    overlap.of_edge = std::to_string(std::max<std::uint64_t>(found.largest_node, 1) - 1);
    if (state.ids.integer && !options.names_nodes())
        state.keep_warnings("names", doubt_overlap(overlap, text_tables(options.node_attributes)));
    std::vector<std::string> doubts;
    const std::vector<std::filesystem::path> tables = text_tables(options.node_attributes);
    for (std::size_t table = 0; table < tables.size(); ++table)
        if (const auto& [count, line] = std::pair(missing[table].missing, missing[table].first_missing); count != 0)
            doubts.push_back(tables[table].string() + ": " + doubt_missing(count, line));
    state.keep_warnings("missing", doubts);
    if (names) names->finish();
    for (append_file& file : records) file.sync();
    write_relations(state.directory.work("relations"), relations);
    if (found.edges[0] + found.edges[1] + found.edges[2] == 0)
        throw error(errc::invalid_format, "the sources contain no edges", {.path = sources[0].source.path});

    std::uint64_t nodes = std::max({found.largest_node, table_nodes, listed_nodes});
    std::uint64_t numbered = std::max<std::uint64_t>(found.largest_relation, 1);
    for (const planned_source& source : sources) {
        nodes = std::max(nodes, source.nodes);
        numbered = std::max(numbered, source.relations);
    }
    state.journal.set("nodes", nodes);
    state.journal.set("relations", state.ids.relations == relation_kind::none ? 1 : numbered);
    for (std::size_t split = 0; split < 3; ++split)
        state.journal.set("edges" + std::to_string(split), found.edges[split]);
}

} // namespace gneiss::importing
