#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <gneiss/io/import/options.hpp>

/// Real graphs that a machine can derive from what it has: each gives sources of text "head TAB relation TAB tail".
namespace data_tool {

/// A graph ready to be imported.
struct derived_graph {
    gneiss::import_options options;
    std::uint64_t expected_nodes = 0, expected_edges = 0; ///< 0: they change with the archive
};

/// Knowledge graph of the archive's packages, from the Packages index. Entities: packages p:, virtual packages v:,
/// sources s:, maintainers m:, sections c:, priorities y:, architectures a:, multi-arch u:, debtags t:, home pages h:.
[[nodiscard]] derived_graph debian_graph(const std::filesystem::path& state);

/// Every file of the archive, from the Contents indices. Entities: packages p:, directories d:, files f:, names of
/// files that occur twice or more b:. Relations: in-directory, within, owned-by, named.
/// \param memory  for counting names of files [bytes]
[[nodiscard]] derived_graph debian_files_graph(const std::filesystem::path& state, std::uint64_t memory);

/// WordNet 3.0: synsets and the pointers between them, from the package wordnet-base.
[[nodiscard]] derived_graph wordnet_graph(const std::filesystem::path& state);

} // namespace data_tool
