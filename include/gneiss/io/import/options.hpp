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
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/node_options.hpp>
#include <gneiss/io/import/text_reader.hpp>
#include <gneiss/io/manifest.hpp>

namespace gneiss {

/// Format of source files.
enum class edge_format {
    automatic, ///< by the file's name and first lines
    tsv,       ///< fields between tabs
    csv,       ///< fields between commas, quotes allowed
    edge_list, ///< source, destination and optional fields, between blanks or tabs
    metis,     ///< METIS graph: line i has the neighbors of node i, from 1
    mtx,       ///< Matrix Market coordinate
    npy        ///< integers [m, 2] (source, destination) or [m, 3] (source, relation, destination)
};

/// Kind of node ids.
enum class id_kind {
    automatic, ///< integers if the format implies it (npy, metis, mtx) or a table of names is given, else names
    string,    ///< names; a node exists because an edge names it
    integer    ///< row numbers: 0 … largest id, nodes without edges included
};

/// Part of the edges in a file.
enum class edge_split : std::uint8_t { train, valid, test };

/// One input.
struct import_source {
    std::filesystem::path path;           ///< also its name in errors; a pipe is copied to disk first
    edge_split split = edge_split::train; ///< part of the edges
    /// Opens the bytes of sources that are not files; called once per pass.
    std::function<std::unique_ptr<importing::byte_source>()> open{};
    std::string fingerprint{}; ///< identifies the content of a source without a file
    bool once = false;         ///< cannot be read again: an import that fails leaves nothing for a later call
    std::uint64_t bytes = 0;   ///< of a source without a file, if known
    /// Computes edges first, first + 1, … between integer ids, for computed graphs. Thread-safe.
    std::function<void(std::uint64_t first, std::span<edge> out)> compute{};
    std::uint64_t computed_edges = 0, computed_nodes = 0, computed_relations = 1; ///< sizes of a computed source
    bool transposed = false; ///< an array [2, m]: all sources, then all destinations
    std::string columns{};   ///< a matrix: what its rows, columns and values are taken for, for the report
};

/// Progress of an import.
struct import_progress {
    std::string_view phase;  ///< "read", "names", "edges", …
    std::uint64_t done = 0;  ///< part of `total` done, in `unit`
    std::uint64_t total = 0; ///< 0: unknown
    std::string_view unit;   ///< "bytes", "edges"
    std::uint64_t edges = 0; ///< edges processed so far in this phase
};

/// Options of `import_dataset`.
struct import_options {
    std::vector<import_source> sources;          ///< files; a single directory means the layout found in it
    std::filesystem::path out;                   ///< the dataset
    edge_format format = edge_format::automatic; ///< format of edges
    id_kind ids = id_kind::automatic;            ///< kind of node ids
    std::vector<std::string>
        columns{};       ///< source, relation, destination (or source, destination): positions or header names
    bool header = false; ///< the first line names the columns
    std::optional<char> delimiter{}; ///< ' ' means runs of blanks and tabs
    /// Lines that begin with it are skipped; '\0': none are. Not given: the lines before the first edge that are '#' or
    /// '%' alone or before a blank, and later ones that begin with '#' or '%' and do not have the fields of an edge.
    std::optional<char> comment{};
    std::filesystem::path entities{};  ///< table of node names for integer ids
    std::filesystem::path relations{}; ///< table of relation names for integer ids
    /// For computed graphs, in place of the tables: the names of nodes 0, 1, … below `node_attributes.nodes`, and the
    /// names of relations by id.
    std::function<std::string(std::uint64_t node)> compute_name{};
    std::vector<std::string> relation_names{}; ///< names of relations; empty: from the sources
    bool undirected = false; ///< store each training edge both ways; no effect on symmetric mtx and METIS
    /// Tails are other nodes than heads of the same id. Matrices: columns are nodes after the rows; without it,
    /// matrices are square. Text, and arrays with ids as names: the name of the tail's column in a header, or "tail",
    /// and ":" go before the names of tails.
    bool bipartite = false;
    bool deduplicate = false;                         ///< store each edge of a split once
    std::optional<std::array<double, 3>> fractions{}; ///< train, valid, test; drawn by the edge, not by its line
    import_node_attributes node_attributes{};         ///< attributes of nodes
    std::optional<dataset_task> task{};               ///< default: node if there are labels, else link
    bool unseen_to_train = false; ///< move a valid or test edge with a node or relation unknown to train to train
    std::uint32_t partitions = 0; ///< 0: `choose_partitions`
    std::uint64_t skip_bad = 0;   ///< wrong lines of text that may be left out; they are listed in skipped.tsv
    std::uint64_t memory = std::uint64_t{512} << 20; ///< for buffers and maps, besides the program's own [bytes]
    std::uint64_t seed = 0;
    bool force = false;                  ///< replace an existing dataset at `out`
    std::vector<std::string> warnings{}; ///< about guesses behind these options: the report repeats them
    /// Expected counts, 0: unknown; a mismatch means a damaged or different source.
    std::uint64_t expected_nodes = 0, expected_edges = 0, expected_relations = 0;
    std::string name{};       ///< name of the dataset; empty: that of `out`
    std::string provenance{}; ///< recorded in the manifest
    std::function<void(const import_progress&)>
        progress{};         ///< called from the calling thread or a worker, never concurrently
    std::stop_token stop{}; ///< ends the import with errc::canceled
    importing::name_hasher hash = importing::default_name_hash; ///< hash of names

    /// Returns true if integer ids have names.
    [[nodiscard]] bool names_nodes() const noexcept { return !entities.empty() || compute_name; }
};

/// Result of an import.
struct import_report {
    std::uint64_t nodes = 0;                                        ///< number of nodes
    std::uint64_t edges = 0;                                        ///< all splits
    std::uint64_t train_edges = 0, valid_edges = 0, test_edges = 0; ///< edges by part
    std::uint64_t relations = 0;                                    ///< 1 for pairs
    std::uint32_t partitions = 0;                                   ///< number of partitions
    std::uint64_t unseen = 0;                  ///< valid and test edges with a node or relation unknown to train
    std::uint64_t moved = 0;                   ///< those of them moved to train
    std::uint64_t skipped = 0;                 ///< wrong lines left out
    std::uint64_t comments = 0;                ///< lines of text skipped as comments
    std::uint64_t duplicates = 0;              ///< repeated edges left out
    bool both_ways = false;                    ///< every training edge is stored both ways
    dataset_node_attributes node_attributes{}; ///< attributes written
    std::uint64_t unlabeled_tests = 0;         ///< test nodes without a label: in no part
    /// files, and first lines that look like headers but were read as edges
    std::vector<std::pair<std::filesystem::path, std::string>> header_like{};
    /// text files, and the columns that their first line was taken for
    std::vector<std::pair<std::filesystem::path, std::string>> columns{};
    std::vector<std::string> warnings{}; ///< sentences about what was guessed or left out, and the flag that decides
    bool resumed = false;                ///< continued the work of an earlier run
};

/// Returns the default number of partitions of a graph.
///
/// Training keeps a few partitions of rows in memory: a row of 100 floats with Adagrad state takes 800 bytes. 16 suit
/// every graph below a million nodes. Above, a partition should take at most a sixteenth of the memory (so that a
/// buffer of eight uses half of it) and at most 256 MiB; between 16 and 64 partitions, a power of two, since p² buckets
/// are read and written one by one.
[[nodiscard]] constexpr std::uint32_t choose_partitions(std::uint64_t nodes, std::uint64_t memory) noexcept {
    constexpr std::uint64_t row_bytes = 800, largest = std::uint64_t{256} << 20;
    const std::uint64_t share = memory / 16 < largest ? memory / 16 : largest;
    std::uint32_t partitions = 16;
    while (nodes >= 1'000'000 && partitions < 64 && nodes / partitions * row_bytes > share) partitions *= 2;
    return partitions;
}

} // namespace gneiss
