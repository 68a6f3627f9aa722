// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/graph/coo.hpp>
#include <gneiss/io/import/names.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/import/text_reader.hpp>
#include <gneiss/io/manifest.hpp>

namespace gneiss {

/// How source files are written.
enum class edge_format {
    automatic, ///< by the file's name and first lines
    tsv,       ///< fields between tabs
    csv,       ///< fields between commas, quotes allowed
    edge_list, ///< source, destination and perhaps more, between blanks or tabs; '#' and '%' begin comments
    metis,     ///< METIS graph: line i holds the neighbors of node i, from 1
    mtx,       ///< Matrix Market coordinate
    npy        ///< integers [m, 2] (source, destination) or [m, 3] (source, relation, destination)
};

/// What the ids of nodes are.
enum class id_kind {
    automatic, ///< integers where the format says so (npy, metis, mtx) or a table of names is given, else names
    string,    ///< names; a node exists because an edge names it
    integer    ///< row numbers: 0 … largest id, nodes without edges included
};

/// Which part of the edges a file holds.
enum class edge_split : std::uint8_t { train, valid, test };

/// One input.
struct import_source {
    std::filesystem::path path; ///< also its name in errors
    edge_split split = edge_split::train;
    /// Makes the bytes, for sources that are not files; called once for every pass.
    std::function<std::unique_ptr<importing::byte_source>()> open{};
    std::string fingerprint{}; ///< what tells one content of a made source from another
    /// Makes edges first, first + 1, … between integer ids, for graphs that are computed. Thread-safe.
    std::function<void(std::uint64_t first, std::span<edge> out)> compute{};
    std::uint64_t computed_edges = 0, computed_nodes = 0, computed_relations = 1;
    bool transposed = false; ///< an array [2, m]: all sources, then all destinations
};

/// How far an import is.
struct import_progress {
    std::string_view phase;  ///< "read", "names", "edges", …
    std::uint64_t done = 0;  ///< of `total`, in `unit`
    std::uint64_t total = 0; ///< 0: unknown
    std::string_view unit;   ///< "bytes", "edges"
    std::uint64_t edges = 0; ///< edges seen so far in this phase
};

/// What `import_dataset` reads and makes.
struct import_options {
    std::vector<import_source> sources; ///< files; one directory stands for the layout found in it
    std::filesystem::path out;          ///< the dataset
    edge_format format = edge_format::automatic;
    id_kind ids = id_kind::automatic;
    std::vector<std::string>
        columns{};       ///< source, relation, destination (or source, destination): positions or header names
    bool header = false; ///< the first line names the columns
    std::optional<char> delimiter{};                  ///< ' ' stands for runs of blanks and tabs
    std::optional<char> comment{};                    ///< lines that begin with it are skipped
    std::filesystem::path entities{};                 ///< table of node names for integer ids
    std::filesystem::path relations{};                ///< table of relation names for integer ids
    /// For graphs that are computed, in place of the tables: the name of node 0, 1, … of all that `node_attributes.nodes`
    /// says, and the names of relations by id.
    std::function<std::string(std::uint64_t node)> compute_name{};
    std::vector<std::string> relation_names{};
    bool undirected = false;                          ///< each training edge is stored both ways; adds nothing to symmetric mtx and METIS
    std::optional<std::array<double, 3>> fractions{}; ///< train, valid, test; drawn by the edge, not by its line
    import_node_attributes node_attributes{};
    std::optional<dataset_task> task{}; ///< default: node when there are labels, else link
    bool unseen_to_train = false;       ///< a valid or test edge that names what train does not goes to train
    std::uint32_t partitions = 0;       ///< 0: `choose_partitions`
    std::uint64_t memory = std::uint64_t{512} << 20; ///< for buffers and maps, beside what the program takes [bytes]
    std::uint64_t seed = 0;
    bool force = false; ///< replaces what is at `out`
    /// Counts that are known beforehand, 0: not; others mean that a source is not what it should be.
    std::uint64_t expected_nodes = 0, expected_edges = 0, expected_relations = 0;
    std::string name{};       ///< of the dataset; empty: that of `out`
    std::string provenance{}; ///< told in the manifest
    std::function<void(const import_progress&)>
        progress{}; ///< called from the calling thread or a worker, never at once
    std::stop_token stop{};
    importing::name_hasher hash = importing::default_name_hash;

    /// Whether integer ids come with names.
    [[nodiscard]] bool names_nodes() const noexcept { return !entities.empty() || compute_name; }
};

/// What an import did.
struct import_report {
    std::uint64_t nodes = 0;
    std::uint64_t edges = 0; ///< all splits
    std::uint64_t train_edges = 0, valid_edges = 0, test_edges = 0;
    std::uint64_t relations = 0; ///< 1 for pairs
    std::uint32_t partitions = 0;
    std::uint64_t unseen = 0; ///< valid and test edges that name a node or relation train does not
    std::uint64_t moved = 0;  ///< of these, moved to train
    dataset_node_attributes node_attributes{};
    std::uint64_t unlabeled_tests = 0; ///< test nodes without a label: in no part
    std::vector<std::pair<std::filesystem::path, std::string>> header_like{}; ///< files, and first lines: read as edges, though like headers
    bool resumed = false;               ///< went on from a part that an earlier run left
};

/// Partitions for a graph when the user does not say.
///
/// Training keeps a few partitions of rows in memory: a row of 100 floats with Adagrad state takes 800 bytes. 16 suit
/// everything below a million nodes. Above, a partition should take at most a sixteenth of the memory (so that a
/// buffer of eight uses half of it) and be 256 MiB at most; between 16 and 64 partitions, a power of two, since p²
/// buckets are read and written one by one.
[[nodiscard]] constexpr std::uint32_t choose_partitions(std::uint64_t nodes, std::uint64_t memory) noexcept {
    constexpr std::uint64_t row_bytes = 800, largest = std::uint64_t{256} << 20;
    const std::uint64_t share = memory / 16 < largest ? memory / 16 : largest;
    std::uint32_t partitions = 16;
    while (nodes >= 1'000'000 && partitions < 64 && nodes / partitions * row_bytes > share) partitions *= 2;
    return partitions;
}

} // namespace gneiss
