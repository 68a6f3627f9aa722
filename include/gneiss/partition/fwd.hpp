// SPDX-License-Identifier: Apache-2.0
// Module partition: partitioners (streaming, multilevel, semi-external, random, METIS), refinement, quality measures and hubs.
// Forward declarations, without default template arguments.
#pragma once

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
