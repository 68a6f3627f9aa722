// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/storage/edge/disk_scratch.hpp>

namespace programs {

/// Flags that only some partitioners take. Absent: the partitioner's own default.
struct partitioner_flags {
    std::optional<std::uint64_t> passes{};
    std::optional<double> gamma{}, nu{}, chunk{}, older{};
    std::optional<std::string> effort{}, edge_order{}, seed_partitioner{};
    std::span<const gneiss::partition_id16> initial{}; ///< [nodes] or empty: parts to refine
};

/// A partitioner whose type is chosen at run time.
struct any_partitioner {
    std::function<std::vector<gneiss::partition_id16>(gneiss::any_adjacency& graph,
        const gneiss::partition_request& request, gneiss::disk_scratch& place, const gneiss::tbb_executor& executor)>
        run{};
    std::function<std::uint64_t(std::uint64_t nodes, gneiss::edge_index arcs, const gneiss::partition_request& request)>
        memory{}; ///< in addition to the graph, result included [bytes]
    /// Returns the same partitioner with a cluster graph of at most this many edges. Empty for partitioners without
    /// one.
    std::function<any_partitioner(std::uint64_t most_edges)> with_edges{};
};

/// Name and factory of a partitioner.
struct partition_method {
    std::string name{};
    std::vector<std::string> flags{}; ///< supported members of `partitioner_flags`
    bool caps = false;                ///< supports label caps
    double label_cap = 0;             ///< default for datasets with labels; 0: none
    bool needs_labels = false;
    bool seeded = true; ///< the result depends on the seed
    std::function<any_partitioner(const partitioner_flags& flags)> make{};
};

/// Returns all methods.
[[nodiscard]] const std::vector<partition_method>& partition_methods();
/// Returns the method of that name; null: none.
[[nodiscard]] const partition_method* find_method(std::string_view name);

} // namespace programs
