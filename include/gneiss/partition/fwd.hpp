// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup partition partition
/// Partitioners, refinement, quality measures and hubs.
///
/// A `partitioner` assigns a part to every node of an `adjacency_stream`, within a given imbalance. Streaming ones
/// (`ldg_partitioner`, `fennel_partitioner`, `gap_partitioner`, `band_partitioner`) need memory per node, not per edge;
/// `semi_partitioner` holds a reduced graph, `grem` works chunk by chunk; `multilevel_partition` and METIS hold the
/// whole graph. Their result is a function of graph, request and options, at any number of threads.

// Forward declarations, without default arguments of templates.
#include <cstdint>

#include <gneiss/core/executor/concepts.hpp>

namespace gneiss {

enum class balance_by : std::uint8_t;
enum class greedy_tie : std::uint8_t;
enum class lazy_walk : std::uint8_t;
enum class multilevel_effort : std::uint8_t;

struct band_partitioner;
struct clustering_limits;
struct fennel_partitioner;
struct gap_partitioner;
struct grem_options;
struct grem_partitioner;
struct influence_options;
struct ldg_partitioner;
struct metis_options;
struct multilevel_options;
struct neighbor_counts;
struct node_clusters;
struct partition_journal;
struct partition_quality;
struct partition_request;
struct random_partitioner;
struct refinement;
struct semi_partitioner;
struct weighted_graph;
struct wrong_or_tie;

template <executor E>
struct multilevel_bisector;
template <class... Candidates>
struct portfolio_partitioner;

} // namespace gneiss
