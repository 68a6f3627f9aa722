// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/io/row_shuffle.hpp>

namespace gneiss {

/// Options of `reorder`: row order by a file, by partitions, with training nodes first, or computed.
struct reorder_options {
    /// Integers [nodes], .npy or one per line (`integer_file`). An order of nodes: entry r is the node that becomes row
    /// r. Or, if all are below half the nodes, an assignment: entry v is the partition of node v, in random order
    /// within it. Nodes are given by their number in the source; if they have names, by their present row.
    std::filesystem::path by{};
    /// Present rows, distinct, that form a first partition of their own, which is pinned; the other partitions follow
    /// without them. With `by`, that must be an assignment; otherwise the others keep their partitions.
    std::vector<node_id> hubs{};
    bool training_first = false; ///< training nodes take the first rows; random order among them and among the others
    std::optional<row_shuffle> shuffle{}; ///< shuffles all rows of the source
    std::uint64_t seed = 0;               ///< seeds the random orders of `training_first` and within partitions
    /// partitions of the result without hubs; 0: those of the assignment, or the source's
    std::uint32_t partitions = 0;
    std::uint64_t memory = 256 << 20; ///< memory of the work [bytes]
    /// Called with the progress of a phase.
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress{};
    std::stop_token stop{}; ///< ends the work with errc::canceled
};

} // namespace gneiss
