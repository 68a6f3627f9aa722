// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/import/detail/node_split.hpp>
#include <gneiss/io/import/detail/node_tables.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/npy.hpp>

// Inputs of node attributes: checks of the options, and the counts that files declare.
namespace gneiss::importing {

/// Throws errc::invalid_argument for options that exclude each other or are incomplete.
inline void check_node_attributes(const import_node_attributes& data) {
    const auto need = [](bool holds, const char* what) {
        if (!holds) throw error(errc::invalid_argument, what);
    };
    need(data.features.empty() || data.indptr.empty(), "features are dense or sparse, not both");
    need(data.indptr.empty() == data.indices.empty(), "sparse features need offsets (indptr) and indices");
    need(data.values.empty() || !data.indptr.empty(), "values of sparse features need offsets and indices");
    need((!data.split.empty()) + data.has_masks() + (!data.lists.empty()) + bool(data.compute_split) +
                data.fractions.has_value() <=
            1,
        "a split of the nodes is given once: by a file, by masks, by lists or by fractions");
    need(!data.fractions || data.has_labels(), "fractions split labeled nodes and need labels");
    need(data.project == 0 || data.has_features(), "a projection needs features");
    for (const auto& mask : data.masks)
        need(mask.empty() || !is_text_table(mask),
            "masks are arrays (.npy): in text, a column has the split (split column)");
    need(data.feature_columns.empty() || (!data.features.empty() && is_text_table(data.features)),
        "feature columns are those of a text file of features");
    need(data.label_columns.empty() || (!data.labels.empty() && is_text_table(data.labels)),
        "label columns are those of a text file of labels");
    need(data.label_columns.empty() || data.target != node_target_kind::classes,
        "several label columns are for nodes with several labels (multilabel) or for numbers (regression): a class has "
        "one");
    for (const import_node_list& list : data.lists)
        need(list.labels.empty() || data.target == node_target_kind::classes, "labels of lists of nodes are classes");
    if (data.fractions) {
        const auto& f = *data.fractions;
        need(f[0] >= 0 && f[1] >= 0 && f[2] >= 0 && f[0] + f[1] + f[2] > 1 - 1e-9 && f[0] + f[1] + f[2] < 1 + 1e-9,
            "fractions are three nonnegative numbers that sum to 1");
    }
}

/// Returns all files of the attributes.
[[nodiscard]] inline std::vector<std::filesystem::path> files_of(const import_node_attributes& data) {
    std::vector<std::filesystem::path> files;
    for (const auto* path : {&data.features, &data.indptr, &data.indices, &data.values, &data.labels, &data.split})
        if (!path->empty()) files.push_back(*path);
    for (const auto& mask : data.masks)
        if (!mask.empty()) files.push_back(mask);
    for (const import_node_list& list : data.lists) {
        files.push_back(list.nodes);
        if (!list.labels.empty()) files.push_back(list.labels);
    }
    return files;
}

/// Returns the text files with a line for each node, each once: at most three.
[[nodiscard]] inline std::vector<std::filesystem::path> text_tables(const import_node_attributes& data) {
    std::vector<std::filesystem::path> tables;
    for (const auto& path : {data.features, data.labels, data.split})
        if (!path.empty() && is_text_table(path) && std::ranges::find(tables, path) == tables.end())
            tables.push_back(path);
    return tables;
}

/// Returns the number of nodes in arrays or options; 0: unknown. Throws if two arrays disagree.
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
    for (const auto& mask : data.masks) declare(mask, 0);
    return nodes;
}

/// Throws errc::invalid_format for a split that is one mask. One pass over an array of bytes.
inline void check_split(const import_node_attributes& data) {
    if (!data.split.empty() && !is_text_table(data.split)) check_split_array(data.split);
}

/// Returns true if the attributes number the nodes.
[[nodiscard]] inline bool numbers_nodes(const import_node_attributes& data) {
    return declared_nodes(data) != 0 || data.by_line || !data.lists.empty() || data.compute_features ||
        data.compute_sparse || data.compute_label || data.compute_targets || data.compute_split;
}

/// Returns a text of the attributes' effect on the result, for a journal.
[[nodiscard]] inline std::string fingerprint_of(const import_node_attributes& data) {
    std::string text;
    for (const std::uint64_t value : {data.num_features,
             static_cast<std::uint64_t>(data.feature_type ? static_cast<int>(*data.feature_type) + 1 : 0), data.project,
             data.classes, std::uint64_t{data.by_line}, std::uint64_t{data.header},
             static_cast<std::uint64_t>(data.missing), data.nodes, data.computed_columns,
             static_cast<std::uint64_t>(data.target),
             static_cast<std::uint64_t>(static_cast<unsigned char>(data.label_separator))})
        text += "|" + std::to_string(value);
    text += "|" + data.standardize.string();
    for (const auto* path : {&data.features, &data.indptr, &data.indices, &data.values, &data.labels, &data.split})
        text += path->empty() ? "|-" : "|+"; // the roles of `files_of`
    for (const auto& mask : data.masks) text += mask.empty() ? "|-" : "|+";
    std::vector<table_column> columns{data.id_column, data.label_column, data.split_column};
    columns.insert(columns.end(), data.feature_columns.begin(), data.feature_columns.end());
    columns.insert(columns.end(), data.label_columns.begin(), data.label_columns.end());
    for (const table_column& column : columns) text += "|" + std::to_string(column.position) + column.name;
    for (const import_node_list& list : data.lists)
        text += "|" + std::to_string(static_cast<int>(list.part)) + (list.labels.empty() ? "-" : "+");
    if (data.fractions)
        for (const double f : *data.fractions) text += "|" + std::to_string(std::bit_cast<std::uint64_t>(f));
    return text;
}

} // namespace gneiss::importing
