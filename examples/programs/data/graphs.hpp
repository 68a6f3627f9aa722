// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/io/import/options.hpp>

#include "kit/cli/download.hpp"

/// Real graphs from local or published data: each yields sources of text "head TAB relation TAB tail".
namespace data_tool {

/// Returns the knowledge graph of the archive's packages, from the Packages index. Entities: packages p:, virtual
/// packages v:, sources s:, maintainers m:, sections c:, priorities y:, architectures a:, multi-arch u:, debtags t:,
/// home pages h:.
[[nodiscard]] gneiss::import_options debian_graph(const std::filesystem::path& state);

/// Returns the archive's packages for node classification: dependencies of eight kinds as edges (virtual packages stand
/// for those that provide them, up to eight), words of the descriptions that at least 60 packages use as sparse
/// features, the section as label; 60/20/20 by the source package, so that each source is in one split.
/// \param note  receives a line for the user, if there is one
[[nodiscard]] gneiss::import_options debian_nodes(const std::filesystem::path& state, std::string& note);

/// Returns every file of the archive, from the Contents indices. Entities: packages p:, directories d:, files f:, names
/// of files that occur at least twice b:. Relations: in-directory, within, owned-by, named.
/// \param memory  for counting names of files [bytes]
/// \param held    receives the memory of the names, which the source keeps [bytes]
[[nodiscard]] gneiss::import_options debian_files_graph(
    const std::filesystem::path& state, std::uint64_t memory, std::uint64_t& held);

/// Returns a graph of Planetoid: citations both ways without loops and repetitions, words of the papers as sparse
/// features, topics as labels, and the public split: the nodes of `y` train, the next 500 validate, those of test.index
/// test. Nothing of the pickled files is executed.
/// \param files  tx, allx, y, ty, ally, graph, test.index, as published
/// Throws errc::invalid_format, errc::unsupported with the path.
[[nodiscard]] gneiss::import_options planetoid_graph(
    const std::vector<std::filesystem::path>& files, const std::filesystem::path& state);

/// Writes a file, unless it already has this content: a resumed import identifies its files by their time.
std::filesystem::path kept(const std::filesystem::path& path, const std::string& text);

/// Returns the names of the graphs for download.
[[nodiscard]] std::vector<std::string> downloadable_graphs();

/// Returns the purpose of a graph for download. Throws errc::not_found for another name, as the next ones.
[[nodiscard]] gneiss::dataset_task published_task(const std::string& name);
/// True if each file of the graph has a published checksum.
[[nodiscard]] bool has_published_checksums(const std::string& name);
[[nodiscard]] bool has_published_features(const std::string& name);
/// Returns true if lists of candidates to rank are published with the valid and test edges.
[[nodiscard]] bool has_published_candidates(const std::string& name);

/// Returns a published graph, with the split, features and labels it is published with. Its files come from the web, or
/// as `options` says, and are unpacked in `state`. Its provenance names each URL with the size and SHA-256 of the file.
/// \param candidates  directory for valid.npz and test.npz with the published candidates; empty: not written
[[nodiscard]] gneiss::import_options downloaded_graph(const std::string& name, const std::filesystem::path& state,
    const programs::download_options& options, const std::filesystem::path& candidates);

/// Returns WordNet 3.0: synsets and the pointers between them, from the package wordnet-base.
/// \param held  receives the memory of their text, which the source keeps [bytes]
[[nodiscard]] gneiss::import_options wordnet_graph(const std::filesystem::path& state, std::uint64_t& held);

} // namespace data_tool
