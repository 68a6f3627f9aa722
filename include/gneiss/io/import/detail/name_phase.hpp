// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/node_arrays.hpp>
#include <gneiss/io/import/detail/relations.hpp>
#include <gneiss/io/import/detail/spill.hpp>
#include <gneiss/io/import/detail/state.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/node_inputs.hpp>

// Assigns ids to nodes and relations.
namespace gneiss::importing {

/// Returns sentences about tables of nodes most of which no edge has. Throws errc::invalid_format for a table without a
/// node of the edges.
[[nodiscard]] inline std::vector<std::string> doubt_overlap(
    const name_overlap& overlap, const std::vector<std::filesystem::path>& tables) {
    std::vector<std::string> doubts;
    for (std::size_t table = 0; table < tables.size(); ++table) {
        const std::uint64_t listed = overlap.listed[table], met = overlap.met[table];
        if (2 * met >= listed) continue;
        const std::string& name = overlap.unmet[table];
        const std::string what =
            (met == 0 ? "no node of this table is in the edges: of " + std::to_string(listed)
                      : "most nodes of this table are in no edge: " + std::to_string(listed - met) + " of " +
                        std::to_string(listed)) +
            ", such as " + excerpt(name) + "; the edges have nodes such as " + excerpt(overlap.of_edge) +
            (name.ends_with(".0") ? " (pandas writes integers so in a column with gaps: use astype('Int64'))" : "");
        if (met == 0) throw error(errc::invalid_format, what, {.path = tables[table]});
        doubts.push_back(tables[table].string() + ": " + what);
    }
    return doubts;
}

/// Returns the sentence about names that stand for missing values elsewhere, by their number and the line of the first.
[[nodiscard]] inline std::string doubt_missing(std::uint64_t names, std::uint64_t line) {
    return "names such as NaN, NA, None or null, by which programs write missing values: " + std::to_string(names) +
        ", the first in line " + std::to_string(line) +
        "; they were read as names: if values are missing, leave out these lines, as dropna() of pandas does";
}

/// Writes the arrays that name the nodes. Nodes are the names sorted by hash; integer ids are permuted.
///
/// Throws hash_collision; errc::invalid_format for a table that gives two nodes the same name. Cost: the names are
/// written once more for each level of splitting that the memory requires.
template <executor E>
void name_nodes(import_state& state, const E& executor) {
    const import_options& options = state.options;
    const partial_directory& directory = state.directory;
    std::uint64_t nodes = state.node_count();
    const bool table = options.names_nodes();
    name_overlap overlap;
    if (state.collects_names()) {
        const auto names = partitioned_spill::open(directory.work("names"));
        try {
            nodes = write_names(
                names, directory.path(), executor, options.memory / 2, table, directory.work("names-split"),
                [&](std::uint64_t finished, std::uint64_t total) {
                    state.report_progress("names", finished, total, "nodes");
                },
                overlap);
        } catch (const repeated_name& repeated) {
            throw error(errc::invalid_format, repeated.what(), {.path = options.entities});
        }
    }
    if (!state.ids.integer) state.keep_warnings("names", doubt_overlap(overlap, text_tables(options.node_attributes)));
    if (table) {
        hash_map map = open_name_map(directory.path(), nodes, options.memory);
        write_named_rows(directory.path(), directory.work("node-hashes"), map, nodes, options.memory / 4, executor);
    } else if (state.ids.integer) {
        for (const char* name : {"node_to_row.npy", "row_to_node.npy"})
            std::filesystem::remove(directory / name); // of an earlier attempt
        directory.need_disk(2 * sizeof(node_id) * nodes, "the ids of the nodes");
        write_permutation(directory.path(), nodes, options.seed, options.memory / 2, executor,
            [&](std::uint64_t finished, std::uint64_t total) {
                state.report_progress("names", finished, total, "ids");
            });
    }
    state.journal.set("nodes", nodes);
}

/// Removes the files that only name_nodes reads. Call when the journal has its phase.
inline void remove_name_files(import_state& state) {
    partitioned_spill::remove(state.directory.work("names"));
    std::filesystem::remove(state.directory.work("node-hashes"));
}

/// Assigns the ids of relations: the ranks of their names; integers stay unchanged.
inline void rank_relations(import_state& state) {
    const std::vector<std::string> names = load_relations(state.directory.work("relations"));
    if (!names.empty()) state.relation_ids = write_ranked_relations(state.directory.path(), names);
    state.report.relations = names.empty() ? state.journal["relations"] : names.size();
}

} // namespace gneiss::importing
