#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/io/import/options.hpp>

/// Real graphs from local or published data: each yields sources of text "head TAB relation TAB tail".
namespace data_tool {

/// Returns the knowledge graph of the archive's packages, from the Packages index. Entities: packages p:, virtual packages v:,
/// sources s:, maintainers m:, sections c:, priorities y:, architectures a:, multi-arch u:, debtags t:, home pages h:.
[[nodiscard]] gneiss::import_options debian_graph(const std::filesystem::path& state);

/// Returns the archive's packages for node classification: dependencies of eight kinds as edges (virtual packages stand for
/// those that provide them, up to eight), words of the descriptions that at least 60 packages use as sparse features, the
/// section as label; 60/20/20 by the source package, so that each source is in one split.
/// \param note  receives a line for the user, if there is one
[[nodiscard]] gneiss::import_options debian_nodes(const std::filesystem::path& state, std::string& note);

/// Returns every file of the archive, from the Contents indices. Entities: packages p:, directories d:, files f:, names of
/// files that occur at least twice b:. Relations: in-directory, within, owned-by, named.
/// \param memory  for counting names of files [bytes]
[[nodiscard]] gneiss::import_options debian_files_graph(const std::filesystem::path& state, std::uint64_t memory);

/// Returns the names of the graphs for download.
[[nodiscard]] std::vector<std::string> downloadable_graphs();

/// Returns a published graph, downloaded with curl or wget into `state` unless it is there. Its provenance names the file with
/// its size and XXH3-64, which costs one more pass over it.
[[nodiscard]] gneiss::import_options downloaded_graph(const std::string& name, const std::filesystem::path& state);

/// Returns WordNet 3.0: synsets and the pointers between them, from the package wordnet-base.
[[nodiscard]] gneiss::import_options wordnet_graph(const std::filesystem::path& state);

} // namespace data_tool
