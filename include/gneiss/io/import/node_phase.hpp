// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/journal.hpp>
#include <gneiss/io/import/names.hpp>
#include <gneiss/io/import/node_features.hpp>
#include <gneiss/io/import/node_job.hpp>
#include <gneiss/io/import/node_labels.hpp>

// What an import does with node attributes: before the edges are read, while nodes are named, and when they have rows.
namespace gneiss::importing {

/// Throws errc::invalid_argument for options that exclude each other or lack a part.
inline void check_node_data(const import_node_attributes& data) {
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    need(data.features.empty() || data.indptr.empty(), "features are dense or sparse, not both");
    need(data.indptr.empty() == data.indices.empty(), "sparse features need offsets (indptr) and indices");
    need(data.values.empty() || !data.indptr.empty(), "values of sparse features need offsets and indices");
    need((!data.split.empty()) + (!data.lists.empty()) + bool(data.compute_split) + data.fractions.has_value() <= 1,
        "a split of the nodes is given once: by a file, by lists or by fractions");
    need(!data.fractions || data.has_labels(), "fractions split labeled nodes: there are no labels");
    need(data.project == 0 || data.has_features(), "there are no features to project");
    if (data.feature_type && *data.feature_type != npy_dtype::f32 && *data.feature_type != npy_dtype::f16)
        throw error(errc::invalid_argument, "features are stored as f32 or f16");
    if (data.fractions) {
        const auto& f = *data.fractions;
        need(f[0] >= 0 && f[1] >= 0 && f[2] >= 0 && f[0] + f[1] + f[2] > 1 - 1e-9 && f[0] + f[1] + f[2] < 1 + 1e-9,
            "fractions are three numbers of at least 0 whose sum is 1");
    }
}

/// All files of the data.
[[nodiscard]] inline std::vector<std::filesystem::path> files_of(const import_node_attributes& data) {
    std::vector<std::filesystem::path> files;
    for (const auto* path : {&data.features, &data.indptr, &data.indices, &data.values, &data.labels, &data.split})
        if (!path->empty()) files.push_back(*path);
    for (const import_node_list& list : data.lists) {
        files.push_back(list.nodes);
        if (!list.labels.empty()) files.push_back(list.labels);
    }
    return files;
}

/// Nodes that arrays have entries for, or that are known; 0: neither. Throws where two arrays disagree.
[[nodiscard]] inline std::uint64_t declared_nodes(const import_node_attributes& data) {
    std::uint64_t nodes = data.nodes;
    std::filesystem::path by;
    const auto declare = [&](const std::filesystem::path& path, std::uint64_t less) {
        if (path.empty() || is_text_table(path)) return;
        const npy_header header = read_npy_header(plain_file::open(path));
        if (header.rows() < less || header.shape.empty())
            throw error(errc::invalid_format, "must have an entry for each node, not " + shape_text(header.shape),
                {.path = path});
        const std::uint64_t found = header.rows() - less;
        if (nodes != 0 && found != nodes)
            throw error(errc::invalid_format,
                "is for " + std::to_string(found) + " nodes, " +
                    (by.empty() ? "the graph has " : by.string() + " for ") + std::to_string(nodes),
                {.path = path});
        if (found == 0) throw error(errc::invalid_format, "is for no node", {.path = path});
        nodes = found;
        by = path;
    };
    declare(data.features, 0);
    declare(data.indptr, 1);
    declare(data.labels, 0);
    declare(data.split, 0);
    return nodes;
}

/// Whether nodes are numbered by something in the data.
[[nodiscard]] inline bool numbers_nodes(const import_node_attributes& data) {
    return declared_nodes(data) != 0 || data.by_line || !data.lists.empty() || data.compute_features ||
           data.compute_sparse || data.compute_label || data.compute_split;
}

/// What the data changes in the result, for a journal.
[[nodiscard]] inline std::string fingerprint_of(const import_node_attributes& data) {
    std::string text;
    for (const std::uint64_t value : {data.num_features,
             static_cast<std::uint64_t>(data.feature_type ? static_cast<int>(*data.feature_type) + 1 : 0), data.project,
             std::uint64_t{data.label_column}, data.classes, std::uint64_t{data.split_column},
             std::uint64_t{data.by_line}, data.nodes, data.computed_columns})
        text += "|" + std::to_string(value);
    for (const import_node_list& list : data.lists) text += "|" + std::to_string(static_cast<int>(list.part));
    if (data.fractions)
        for (const double f : *data.fractions) text += "|" + std::to_string(f);
    return text;
}

/// Nodes that text files tell of exist: calls `meet(name)` for each, or returns the largest number + 1.
template <class Meet>
std::uint64_t meet_nodes(const import_node_attributes& data, const node_keys& keys, std::uint64_t memory, Meet&& meet) {
    if (keys.by_line) return 0;
    std::vector<std::filesystem::path> tables{data.features, data.labels, data.split};
    tables.erase(std::unique(tables.begin(), tables.end()), tables.end());
    std::uint64_t nodes = 0;
    node_keys lines = keys; // the node is looked at here
    lines.by_line = true;
    lines.nodes = ~std::uint64_t{0};
    for (const auto& path : tables) {
        if (path.empty() || !is_text_table(path)) continue;
        const node_text text(path, lines, memory);
        text.for_each([&](std::uint64_t, std::string_view line, const line_place& place) {
            const std::string_view field = text.take(line);
            const std::uint64_t key = keys.of(field, place);
            if (keys.integer)
                nodes = std::max(nodes, key + 1);
            else
                meet(field, key);
        });
    }
    return nodes;
}

/// Writes the arrays of the data that the journal does not know as done. \tparam Map key of a node → row
template <class Map>
void write_node_data(const node_job& options, Map& map, journal& done) {
    const import_node_attributes& data = *options.data;
    const auto once = [&](const char* what, auto&& write) {
        const std::string name = std::string("node_") + what;
        if (done[name] != 0) return;
        write();
        done.set(name, 1);
        done.save();
    };
    label_writer<Map> labels(options, map);
    if (data.has_labels()) once("labels", [&] { done.set("classes", labels.write_labels()); });
    if (data.has_labels() || data.has_split())
        once("split", [&] {
            const auto counts = labels.write_split();
            done.set("train_nodes", counts.train);
            done.set("valid_nodes", counts.valid);
            done.set("test_nodes", counts.test);
            done.set("unlabelled_tests", counts.unlabeled_tests);
        });
    if (data.has_features()) once("features", [&] { done.set("features", feature_writer<Map>(options, map).write()); });
}

} // namespace gneiss::importing
