// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/io/manifest.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/io/npy_header.hpp>

namespace gneiss {

/// Nodes of one split, and optionally their labels: two parallel arrays, or text files of one column.
struct import_node_list {
    node_split part = node_split::train; ///< part of the nodes
    std::filesystem::path nodes{};       ///< array or text file of nodes
    std::filesystem::path labels{};      ///< empty: no labels here

    friend bool operator==(const import_node_list&, const import_node_list&) = default;
};

/// Treatment of features that are missing: NaN, empty cells, NA, N/A and null of text, and nodes without a line.
enum class missing_features {
    error, ///< refused
    zero,  ///< 0
    mean   ///< mean of the column over the others; dense features
};

/// A column of a text table: its position from 0, or its name in the table's first line.
struct table_column {
    std::size_t position = 0; ///< position from 0
    std::string name{};       ///< empty: the position counts

    /// Names a column by its position.
    table_column(std::size_t at) : position(at) {}
    /// Names a column by its title.
    table_column(std::string named) : name(std::move(named)) {}

    friend bool operator==(const table_column&, const table_column&) = default;
};

/// Attributes of nodes, besides the edges. Everything is optional.
///
/// An array (.npy, or .npz) has an entry for every node, in the order of integer ids. A text file (TSV, or with commas
/// and quotes, semicolons or blanks; plain or gzip) has a line for each node: its id or name, then the values. Nodes in
/// a text file exist even without edges.
struct import_node_attributes {
    /// [nodes, columns] of any real type; text with values, or with COLUMN:VALUE for sparse ones; .npz with one array
    /// or a matrix that scipy saved as CSR, CSC or COO.
    std::filesystem::path features{};
    std::filesystem::path indptr{}, indices{}, values{}; ///< compressed sparse rows; without values all are 1
    /// columns of sparse rows; 0: the largest index + 1; a dense file must have as many, unless 0
    std::uint64_t num_features = 0;
    missing_features missing = missing_features::error; ///< treatment of NaN and empty cells
    /// File of means and deviations, f32 [2, columns], by which columns of dense features are standardized; made from
    /// these features if it does not exist. Empty: values stay.
    std::filesystem::path standardize{};
    std::optional<gneiss::feature_type>
        feature_type{};             ///< type of stored features; default: f16 for an array of f16, else f32
    std::uint64_t project = 0;      ///< columns of a random, seeded projection; 0: none
    std::filesystem::path labels{}; ///< integers, or names in a text file; negative, NaN or empty: none
    table_column label_column = 1;  ///< in a text file
    /// kind of the labels. Several labels of a node are a text with `label_separator` between them ("A|B"; "|" alone:
    /// in no class), or numbers 0 and 1 in `label_columns` or the columns of an array; targets of regression are
    /// numbers there
    node_target_kind target = node_target_kind::classes;
    std::vector<table_column> label_columns{}; ///< in a text file; empty: `label_column`
    char label_separator = '|';                ///< between labels of a node
    bool combined_labels = false;              ///< a label such as "A|B" is a class of that name, not an error
    std::uint64_t classes = 0;                 ///< number of classes; 0: the largest label + 1
    std::filesystem::path split{};             ///< 0 or train, 1 or valid, 2 or test; any other: unused
    /// The split as three masks, of train, valid and test: arrays [nodes] of Booleans, or of 0 and 1. Empty: no node.
    std::array<std::filesystem::path, 3> masks{};
    table_column split_column = 1;                    ///< in a text file
    std::vector<import_node_list> lists{};            ///< the split by lists of nodes
    std::optional<std::array<double, 3>> fractions{}; ///< train, valid, test: the split is drawn among labeled nodes
    bool header = false;                              ///< the first line of each text file names its columns
    table_column id_column = 0;                       ///< the node, in all text files
    std::vector<table_column> feature_columns{};      ///< in a text file; empty: all but those of node, label and split
    bool by_line = false;                             ///< text files have no node column: line i, from 0, is node i
    std::uint64_t nodes = 0;                          ///< number of nodes, if known

    // For computed graphs. Thread-safe functions of the node's id.
    /// Writes the features of a node; empty: none.
    std::function<void(std::uint64_t node, std::span<float> out)> compute_features{};
    std::uint64_t computed_columns = 0;                              ///< columns of computed features
    std::function<std::int32_t(std::uint64_t node)> compute_label{}; ///< returns the label of a node; empty: none
    /// Writes the row of targets [classes] of a node, NaN: none; empty: none.
    std::function<void(std::uint64_t node, std::span<float> out)> compute_targets{};
    std::vector<double> computed_offsets{}; ///< to add to each column of `compute_targets`; empty: 0
    std::vector<std::string> label_names{}; ///< names of computed labels, ascending
    std::function<node_split(std::uint64_t node)> compute_split{}; ///< returns the part of a node; empty: none
    /// Computes the entries of a node's sparse features below `num_features`, ascending; without values all are 1.
    std::function<void(std::uint64_t node, std::vector<std::uint32_t>& columns, std::vector<float>& values)>
        compute_sparse{};

    /// True if there are features.
    [[nodiscard]] bool has_features() const noexcept {
        return !features.empty() || !indptr.empty() || compute_features || compute_sparse;
    }
    /// True if there are labels.
    [[nodiscard]] bool has_labels() const noexcept {
        if (!labels.empty() || compute_label || compute_targets) return true;
        for (const import_node_list& list : lists)
            if (!list.labels.empty()) return true;
        return false;
    }
    /// True if the split is given as masks.
    [[nodiscard]] bool has_masks() const noexcept {
        return !masks[0].empty() || !masks[1].empty() || !masks[2].empty();
    }
    /// Returns true if the part of each node is given.
    [[nodiscard]] bool has_split() const noexcept {
        return !split.empty() || has_masks() || !lists.empty() || compute_split;
    }
    /// True without any attribute.
    [[nodiscard]] bool empty() const noexcept { return !has_features() && !has_labels() && !has_split() && !fractions; }
    /// Returns true if the first line of a text file names its columns: always, or since one of them is given by name.
    [[nodiscard]] bool names_columns(const std::filesystem::path& path) const noexcept {
        if (header || !id_column.name.empty()) return true;
        if (path == labels && label_columns.empty() && !label_column.name.empty()) return true;
        for (const table_column& column : label_columns)
            if (path == labels && !column.name.empty()) return true;
        if (path == split && !split_column.name.empty()) return true;
        if (path != features) return false;
        for (const table_column& column : feature_columns)
            if (!column.name.empty()) return true;
        return false;
    }
};

/// Returns the columns of the labels in a text file.
[[nodiscard]] inline std::vector<table_column> label_columns_of(const import_node_attributes& data) {
    return data.label_columns.empty() ? std::vector<table_column>{data.label_column} : data.label_columns;
}

} // namespace gneiss
