// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/io/npy_header.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Version of the directory format; docs/format.md says when it rises. Later versions are written only if needed: 2 for
/// names whose rows are not in hash order, 3 for partitions of unequal sizes or pinned ones, 4 for several labels per
/// node and for numbers, 5 for features of bf16 and int8, 6 for targets without their means.
inline constexpr std::uint32_t dataset_format_version = 6;

/// Task of a dataset.
enum class dataset_task : std::uint8_t { link, node };
/// Kind of node ids in the source.
enum class dataset_ids : std::uint8_t { integer, string };

/// Kind of a node's labels: one class, any number of classes, or numbers.
enum class node_target_kind : std::uint8_t { classes, multilabel, regression };

/// Returns the word of the manifest, and of `--node-task`.
[[nodiscard]] constexpr std::string_view to_string(node_target_kind kind) {
    return kind == node_target_kind::classes   ? "classes"
        : kind == node_target_kind::multilabel ? "multilabel"
                                               : "regression";
}
/// Returns the word of the manifest.
[[nodiscard]] constexpr std::string_view to_string(dataset_task task) {
    return task == dataset_task::link ? "link" : "node";
}
/// Returns the word of the manifest.
[[nodiscard]] constexpr std::string_view to_string(dataset_ids ids) {
    return ids == dataset_ids::integer ? "integer" : "string";
}

/// An array of the directory: NAME.npy.
struct dataset_array {
    std::string name;                   ///< without ".npy"
    npy_dtype dtype = npy_dtype::f32;   ///< type of an element
    std::vector<std::uint64_t> shape{}; ///< length of each dimension
    std::uint64_t bytes = 0;            ///< bytes of data

    friend bool operator==(const dataset_array&, const dataset_array&) = default;
};

/// A source file of a dataset.
struct dataset_source {
    std::string name;        ///< name of the file
    std::uint64_t bytes = 0; ///< size of the file

    friend bool operator==(const dataset_source&, const dataset_source&) = default;
};

/// Origin of a dataset. It does not change the dataset's meaning.
struct dataset_provenance {
    std::string tool{};                    ///< name and version of the program
    std::string options{};                 ///< its arguments
    std::vector<dataset_source> sources{}; ///< files that it was made from

    friend bool operator==(const dataset_provenance&, const dataset_provenance&) = default;
};

/// Attributes of nodes. All zero: none.
struct dataset_node_attributes {
    std::uint64_t features = 0;                   ///< number of columns; 0: none
    std::uint64_t classes = 0;                    ///< number of classes, or of regression's targets; 0: no labels
    std::uint64_t train = 0, valid = 0, test = 0; ///< nodes of each part
    node_target_kind target = node_target_kind::classes; ///< kind of the labels

    /// Returns the bytes of a node's label or row of targets on disk.
    [[nodiscard]] constexpr std::uint64_t label_bytes() const noexcept {
        return target == node_target_kind::classes ? 4 : target == node_target_kind::multilabel ? classes : 4 * classes;
    }

    friend bool operator==(const dataset_node_attributes&, const dataset_node_attributes&) = default;
};

/// manifest.json: the contents of the directory. Unknown fields are accepted and dropped.
struct dataset_manifest {
    std::string name{};                                             ///< name in reports
    dataset_task task = dataset_task::link;                         ///< task that the dataset is for
    dataset_ids ids = dataset_ids::integer;                         ///< kind of node ids
    std::uint64_t nodes = 0;                                        ///< number of nodes
    std::uint64_t relations = 0;                                    ///< 0 or 1: edges carry no relation on disk
    std::uint64_t train_edges = 0, valid_edges = 0, test_edges = 0; ///< edges by part
    std::uint32_t partitions = 1;                                   ///< number of node partitions
    std::vector<std::uint64_t> partition_sizes{}; ///< nodes of each partition; empty: ranges of equal size
    /// number of leading partitions that hold hubs and stay in memory while others are swapped; with sizes
    std::uint32_t pinned = 0;
    std::optional<bool> both_ways{};           ///< `stored_both_ways` of the training edges; none: unknown
    std::uint64_t seed = 0;                    ///< seed of the permutation from the source's nodes to rows
    std::uint64_t generation = 1;              ///< increases when arrays are replaced, as by another partitioning
    dataset_node_attributes node_attributes{}; ///< attributes of nodes
    std::vector<dataset_array> arrays{};       ///< all arrays of the directory
    dataset_provenance provenance{};           ///< origin of the dataset

    /// Returns the partitions of the rows.
    [[nodiscard]] row_partitioning rows() const {
        if (partition_sizes.empty()) return {nodes, partitions};
        return row_partitioning::of_sizes(partition_sizes);
    }
    /// Sets nodes and partitions.
    void set_rows(const row_partitioning& rows, std::uint32_t pinned_partitions = 0) {
        nodes = rows.nodes;
        partitions = rows.partitions;
        pinned = pinned_partitions;
        partition_sizes.clear();
        if (!rows.borders && pinned == 0) return;
        for (partition_id p = 0; p < partitions; ++p) partition_sizes.push_back(rows.size(p));
    }

    friend bool operator==(const dataset_manifest&, const dataset_manifest&) = default;
};

namespace detail {

[[nodiscard]] inline std::string hexadecimal(std::uint64_t value) {
    std::string text(16, '0');
    for (std::size_t i = text.size(); i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
    return text;
}

} // namespace detail

/// Returns the text of manifest.json. `checksum` covers all of it, with its own 16 digits as zeros.
[[nodiscard]] GNEISS_INLINE std::string format_manifest(const dataset_manifest& m);

/// Parses the output of `format_manifest`, of this version or an older one. `path` is for messages. Throws `error`
/// naming the field.
[[nodiscard]] GNEISS_INLINE dataset_manifest parse_manifest(std::string text, const std::filesystem::path& path);

/// Writes the manifest of a dataset atomically: after a crash the old or the new one is there, whole. Throws
/// `io_error`.
inline void write_manifest(const std::filesystem::path& path, const dataset_manifest& manifest) {
    const std::string text = format_manifest(manifest);
    atomic_write_file(path, std::as_bytes(std::span(text)));
}

/// Reads a manifest. Throws `io_error`, `error`.
[[nodiscard]] inline dataset_manifest read_manifest(const std::filesystem::path& path) {
    constexpr std::uint64_t longest = std::uint64_t{16} << 20;
    const plain_file file = plain_file::open(path);
    const std::uint64_t size = file.size();
    if (size > longest) throw error(errc::invalid_format, "too long for a manifest", {.path = path, .length = size});
    std::string text(static_cast<std::size_t>(size), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return parse_manifest(std::move(text), path);
}

namespace detail {
inline constexpr std::string_view manifest_checksum_key = "\"checksum\": \"";
inline constexpr std::size_t manifest_checksum_digits = 16;
} // namespace detail

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/manifest_json.hpp>
#endif
