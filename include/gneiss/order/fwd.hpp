// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup order order
/// Orders of edge buckets, epoch plans, and their cost.
///
/// An order is a function from an epoch to an `epoch_plan`: a list of buffer states, each with its resident partitions
/// and the edge buckets that train there. BETA, COMET, Hilbert curves and searched sequences are orders; `any_order`
/// holds one chosen at run time. Plans are values: they are validated, costed in swaps and bytes, compared and tuned
/// before a byte moves.

// Forward declarations, without default arguments of templates.
#include <cstdint>

namespace gneiss {

enum class batch_scope : std::uint8_t;
enum class logical_order : std::uint8_t;
enum class row_use : std::uint8_t;

class any_order;
class bucket_list_order;
class comet_order;
class hilbert_order;
class in_memory_order;
class row_major_order;
class searched_order;
class state_batches;
struct batch_number;
struct beta_options;
struct buffer_state;
struct edge_position;
struct memory_tiers;
struct multistage_cost;
struct node_plan;
struct plan_cost;
struct plan_format;
struct resume_position;
struct tuned_partitions;
struct tuning_input;

} // namespace gneiss
