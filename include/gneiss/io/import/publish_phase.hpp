// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include <gneiss/core/error.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#include <gneiss/io/import/state.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

// The end of an import: a complete dataset under its final name.
namespace gneiss::importing {

/// Throws errc::corrupt if a count differs from the expected one.
inline void check_counts(import_state& state) {
    const auto check = [&](const char* unit, std::uint64_t found, std::uint64_t expected) {
        if (expected != 0 && found != expected)
            throw error(errc::corrupt,
                "has " + std::to_string(found) + " " + unit + " where " + std::to_string(expected) +
                    " are known to be: it is damaged, or another version",
                {.path = state.sources[0].source.path});
    };
    check("nodes", state.report.nodes, state.options.expected_nodes);
    check("edges", state.report.edges, state.options.expected_edges);
    check("relations", state.report.relations, state.options.expected_relations);
}

/// Returns the manifest, with the arrays in the directory.
[[nodiscard]] inline dataset_manifest make_manifest(const import_state& state) {
    const import_options& options = state.options;
    const import_report& report = state.report;
    dataset_manifest manifest;
    manifest.name = options.name.empty() ? options.out.filename().string() : options.name;
    manifest.ids = state.collects_names() ? dataset_ids::string : dataset_ids::integer;
    manifest.task = options.task.value_or(report.node_attributes.classes != 0 ? dataset_task::node : dataset_task::link);
    manifest.nodes = report.nodes;
    manifest.node_attributes = report.node_attributes;
    manifest.relations = report.relations;
    manifest.train_edges = report.train_edges;
    manifest.valid_edges = report.valid_edges;
    manifest.test_edges = report.test_edges;
    manifest.partitions = report.partitions;
    manifest.seed = state.hash_seed(); // differs from the user's only after a hash collision
    manifest.provenance.tool = "gneiss import";
    manifest.provenance.options = options.provenance;
    for (const planned_source& planned : state.sources) {
        std::error_code failed;
        const auto size = std::filesystem::file_size(planned.source.path, failed);
        manifest.provenance.sources.push_back({planned.source.path.filename().string(), failed ? 0 : size});
    }
    for (const auto& file : files_of(options.node_attributes))
        manifest.provenance.sources.push_back({file.filename().string(), std::filesystem::file_size(file)});
    for (const auto& entry : std::filesystem::directory_iterator(state.directory.path()))
        if (entry.path().extension() == ".npy") {
            const npy_header header = read_npy_header(plain_file::open(entry.path()));
            manifest.arrays.push_back({entry.path().stem().string(), header.dtype, header.shape, header.bytes()});
        }
    std::sort(manifest.arrays.begin(), manifest.arrays.end(),
        [](const dataset_array& a, const dataset_array& b) { return a.name < b.name; });
    return manifest;
}

/// Writes the manifest, removes temporary files, and renames the directory to the dataset's name.
///
/// An existing dataset is moved away first, so that one complete dataset exists at any time.
inline void publish_dataset(import_state& state) {
    const std::filesystem::path& partial = state.directory.path();
    const std::filesystem::path& out = state.options.out;
    state.nodes = {};
    state.report.node_attributes = {state.journal["features"], state.journal["classes"], state.journal["train_nodes"],
        state.journal["valid_nodes"], state.journal["test_nodes"]};
    for (const planned_source& source : state.sources)
        if (!source.header_like.empty()) state.report.header_like.emplace_back(source.source.path, source.header_like);
    state.report.unlabeled_tests = state.journal["unlabelled_tests"];
    write_manifest(partial / "manifest.json", make_manifest(state));
    (void)dataset(partial).buckets(); // opens it as a reader would
    for (const auto& entry : std::filesystem::directory_iterator(partial)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("work-") || name == "journal") std::filesystem::remove_all(entry.path());
    }
    sync_directory(partial);
    replace_directory(partial, out);
    std::error_code ignored;
    std::filesystem::remove(out / "lock", ignored); // only now: until then it keeps other imports out
}

} // namespace gneiss::importing
