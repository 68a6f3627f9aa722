// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>
#include <variant>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/io/import/detail/id_maps.hpp>
#include <gneiss/io/import/options.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss::importing {

/// Key of a node → row, by the map that suits the ids and the memory; empty until opened.
using node_map = std::variant<std::monostate, hash_map, array_map, permutation_map>;

/// Opens the map from hashes of names, in slices of a third of `memory`.
[[nodiscard]] inline hash_map open_name_map(
    const std::filesystem::path& directory, std::uint64_t nodes, std::uint64_t memory) {
    return {directory / "names.hashes.npy", page_alignment, nodes, memory / 3};
}

/// Opens a node map. Names: by their hash. Integer ids: the array of rows by node if it fits or a table names the
/// nodes; else computed.
[[nodiscard]] inline node_map open_node_map(
    const import_options& options, bool integer, const std::filesystem::path& directory, std::uint64_t nodes) {
    if (!integer) return open_name_map(directory, nodes, options.memory);
    array_map rows(directory / "node_to_row.npy", page_alignment, nodes, options.memory / 3);
    if (rows.slices() == 1 || options.names_nodes()) return rows;
    return permutation_map{keyed_permutation(nodes, random_key(options.seed, random_domain::node_permutation))};
}

/// Calls `visit(map)` with the open map. Precondition: a map is open.
template <class Visit>
void visit_node_map(node_map& nodes, Visit&& visit) {
    if (auto* names = std::get_if<hash_map>(&nodes))
        visit(*names);
    else if (auto* rows = std::get_if<array_map>(&nodes))
        visit(*rows);
    else
        visit(std::get<permutation_map>(nodes));
}

} // namespace gneiss::importing
