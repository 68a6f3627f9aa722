// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/detail/name_phase.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/detail/setup.hpp>
#include <gneiss/io/import/detail/source_plan.hpp>
#include <gneiss/io/import/detail/state.hpp>
#include <gneiss/io/import/fields.hpp>
#include <gneiss/io/import/node_inputs.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/io/npy.hpp>
#include <gneiss/storage/edge/both_ways.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>
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
    manifest.task =
        options.task.value_or(report.node_attributes.classes != 0 ? dataset_task::node : dataset_task::link);
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

/// Adds a table of nodes to `report.columns`, and to its warnings if its first line looks like a header and is not, or
/// is and does not.
inline void describe_table(import_state& state, const std::filesystem::path& path, import_report& report) {
    const import_node_attributes& data = state.options.node_attributes;
    const bool header = data.names_columns(path);
    const node_text table(
        path, state.node_keys_below(state.node_count()), std::uint64_t{1} << 20, header, data.id_column, &state.bad);
    const std::string& line = table.first_line();
    const line_place place{&path, 0, line.data(), line.size()};
    std::string unquoted, text, shown = line.substr(0, 100);
    std::ranges::replace_if(shown, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    field_cursor fields(line, table.format(), place, unquoted);
    std::string_view field;
    const std::vector<table_column> label_columns = label_columns_of(data);
    const auto is_label = [&](std::size_t i) {
        return std::ranges::any_of(
            label_columns, [&](const table_column& column) { return i == table.find_value(column); });
    };
    bool titles = false, numbers = false;
    std::size_t others = 0;
    for (std::size_t i = 0; fields.next(field); ++i) {
        const bool node = i == table.id_column(), label = path == data.labels && is_label(i),
                   split = path == data.split && i == table.find_value(data.split_column);
        if (node || label || split)
            text += std::string(text.empty() ? "" : ", ") +
                (node           ? "node "
                        : label ? "label "
                                : "split ") +
                excerpt(field);
        else
            ++others;
        constexpr std::string_view words[] = {
            "id", "node", "node_id", "nodeid", "name", "label", "class", "category", "split"};
        titles =
            titles || ((node || label || split) && std::ranges::find(words, detail::lowered(field)) != std::end(words));
        numbers = numbers || (header && !node && i < table.names().size() && detail::is_number(table.names()[i]));
    }
    if (path == data.features)
        text += (text.empty() ? "" : ", ") +
            std::to_string(data.feature_columns.empty() ? others : data.feature_columns.size()) + " features";
    if (!data.has_split())
        for (const std::string& name : table.names())
            if (is_mask_name(name))
                report.warnings.push_back(
                    path.string() + ": the mask '" + name + "' was not read: " + std::string(split_advice));
    report.columns.emplace_back(path, "\"" + shown + (line.size() > 100 ? "…" : "") + "\" is " + text);
    if (!header && !state.ids.integer && !state.options.comment && line.starts_with("# "))
        report.warnings.push_back(path.string() + ": the first line, \"" + shown +
            "\", begins with # and was read as a node; if it is a comment, import with --comment '#'");
    if (!header && titles)
        report.warnings.push_back(path.string() + ": the first line, \"" + shown +
            "\", looks like a header and was read as a node; if it is one, import with --header");
    if (numbers && data.header && table.names()[std::min(table.id_column(), table.names().size() - 1)] != "")
        report.warnings.push_back(path.string() +
            ": the first line was read as the names of its columns, and some are numbers; if it "
            "is a node, import without --header, and name the columns of the files that have a header");
}

/// Adds counts of lines to the report: comments, and those that are read and may be meant otherwise.
inline void describe_lines(import_state& state) {
    import_report& report = state.report;
    const journal& found = state.journal;
    report.comments = found["comments"];
    for (std::size_t i = 0; i < state.sources.size(); ++i) {
        const planned_source& source = state.sources[i];
        const std::string of = std::to_string(i), path = source.source.path.string() + ": ";
        if (const std::uint64_t lines = found["uneven" + of]; lines != 0)
            report.warnings.push_back(path + "lines without the " + std::to_string(source.text.fields) +
                " fields of the first edge: " + std::to_string(lines) + ", the first is line " +
                std::to_string(found["first_uneven" + of]) +
                "; fields beyond those of an edge are not read: put tabs or commas between names with blanks, "
                "and write lists of neighbors as one edge a line");
        if (const std::uint64_t names = found["padded" + of]; names != 0)
            report.warnings.push_back(path + "names that begin or end with a blank: " + std::to_string(names) +
                ", the first in line " + std::to_string(found["first_padded" + of]) +
                "; they are other names than those without it");
        if (const std::uint64_t names = found["missing" + of]; names != 0)
            report.warnings.push_back(path + doubt_missing(names, found["first_missing" + of]));
    }
    // A computed graph repeats edges by its definition.
    const bool computed = std::ranges::any_of(state.sources, [](const auto& of) { return bool(of.source.compute); });
    if (const std::uint64_t edges = found["repeated"]; state.options.undirected && !computed && edges != 0)
        report.warnings.push_back("--undirected: " + std::to_string(edges) + " of " +
            std::to_string(report.train_edges) +
            " edges are repeated, since the sources list pairs in both directions or twice: import without "
            "--undirected if they list both, or with --deduplicate");
}

/// Adds what the columns of text files were taken for to the report.
inline void describe_columns(import_state& state) {
    import_report& report = state.report;
    report.warnings.insert(report.warnings.end(), state.options.warnings.begin(), state.options.warnings.end());
    for (const planned_source& source : state.sources) {
        if (!source.columns.empty()) report.columns.emplace_back(source.source.path, source.columns);
        if (!source.header_like.empty()) report.header_like.emplace_back(source.source.path, source.header_like);
        for (const std::string& doubt : source.doubts)
            report.warnings.push_back(source.source.path.string() + ": " + doubt);
        if (source.doubts.empty() && source.guessed && report.relations > 100 && report.relations * 4 > report.nodes)
            report.warnings.push_back(source.source.path.string() +
                ": field 1 was read as the relation, and there are " + std::to_string(report.relations) +
                " relations among " + std::to_string(report.nodes) +
                " nodes: if it is not, name the columns, such as --columns 0,1 for pairs or 0,2,1");
    }
    const import_node_attributes& data = state.options.node_attributes;
    for (const auto& path : text_tables(data)) describe_table(state, path, report);
    for (std::string& warning : state.kept_warnings()) report.warnings.push_back(std::move(warning));
}

/// Writes the manifest, removes temporary files, and renames the directory to the dataset's name.
///
/// With `force`, an existing dataset is moved away first, so that one complete dataset exists at any time. Without it,
/// throws errc::already_exists for one that has appeared since the import began; the finished phases stay for a later
/// run.
inline void publish_dataset(import_state& state) {
    const std::filesystem::path& partial = state.directory.path();
    const std::filesystem::path& out = state.options.out;
    state.nodes = {};
    state.report.node_attributes = {state.journal["features"], state.journal["classes"], state.journal["train_nodes"],
        state.journal["valid_nodes"], state.journal["test_nodes"], state.options.node_attributes.target};
    describe_columns(state);
    describe_lines(state);
    state.report.skipped = state.bad.count();
    state.report.duplicates = state.journal["duplicates"];
    state.report.unlabeled_tests = state.journal["unlabelled_tests"];
    dataset_manifest manifest = make_manifest(state);
    write_manifest(partial / "manifest.json", manifest);
    manifest.both_ways = stored_both_ways( // opens it as a reader would
        dataset(partial).buckets(), state.options.memory / 4, [&] { state.throw_if_stopped(); });
    write_manifest(partial / "manifest.json", manifest);
    state.report.both_ways = *manifest.both_ways;
    check_absent(state.options); // before the files of the phases go
    for (const auto& entry : std::filesystem::directory_iterator(partial)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("work-") || name == "journal") remove_tree(entry.path());
    }
    sync_directory(partial);
    if (state.options.force) {
        replace_directory(partial, out);
    } else {
        rename_into_place(partial, out); // fails if a dataset has appeared just now
        sync_directory(std::filesystem::absolute(out).parent_path());
    }
    directory_lock::remove_from(out); // it kept others out until now
}

} // namespace gneiss::importing
