// SPDX-License-Identifier: Apache-2.0
// Module order: orders of edge buckets (BETA, COMET, Hilbert, searched, …), epoch plans and their cost, bias and validation,
// batches of a state, plans over nodes. Forward declarations, without default template arguments.
#pragma once

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
