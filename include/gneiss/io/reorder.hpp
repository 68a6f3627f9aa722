// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/row_shuffle.hpp>

namespace gneiss {

/// Options of `reorder`: row order by a file, by partitions, with training nodes first, or computed.
struct reorder_options {
    /// Integers [nodes], .npy. An order of nodes: entry r is the node that becomes row r. Or, if all are below half the nodes,
    /// an assignment: entry v is the partition of node v, in random order within it. Nodes are given by their number in the
    /// source; if they have names, by their present row.
    std::filesystem::path by{};
    /// Present rows, distinct, that form a first partition of their own, which is pinned; the other partitions follow without
    /// them. With `by`, that must be an assignment; otherwise the others keep their partitions.
    std::vector<node_id> hubs{};
    bool training_first = false; ///< training nodes take the first rows; random order among them and among the others
    std::optional<row_shuffle> shuffle{}; ///< shuffles all rows of the source
    std::uint64_t seed = 0;       ///< seeds the random orders of `training_first` and within partitions
    std::uint32_t partitions = 0; ///< partitions of the result without hubs; 0: those of the assignment, or the source's
    std::uint64_t memory = 256 << 20;
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress{};
    std::stop_token stop{};
};

/// Makes a dataset at `to` that is `from` with its rows in another order: edges, splits, features, labels and parts follow, and
/// names or numbers map to the new rows.
///
/// The result depends on the data, the order and the seed; not on the memory or the threads. `to` appears atomically and
/// durably; a killed run leaves `to`.partial, which the next one clears.
/// Cost: one external sort of the edges; features are distributed to windows of rows on disk once, if they exceed a quarter of
/// the memory; a few passes over arrays of 4 bytes per node. Scratch space: 12 bytes per edge and 8 per node, and the features
/// once more. Memory: `options.memory` (at least 1 MiB), and the largest bucket of `from`.
/// Errors: errc::already_exists; errc::invalid_format and errc::out_of_range, naming the entry, for a file that is not an order
/// of all nodes; errc::unsupported for an assignment to more than 16384 partitions; errc::invalid_argument unless exactly one
/// of `by`, `training_first`, `shuffle` and `hubs` alone is given, without training nodes, for a shuffle of another number of
/// rows, or for hubs that are not distinct rows; errc::corrupt if `from` is damaged; errc::canceled on a stop, which leaves
/// nothing; over_budget; io_error.
/// Source: MariusGNN, EuroSys'23, §5.2 (training nodes take the first partitions); Hanoi, thesis, §4.3.3 (hubs).
void reorder(const dataset& from, const std::filesystem::path& to, const reorder_options& options, executor_ref executor);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/io/detail/reorder.hpp>
#endif
