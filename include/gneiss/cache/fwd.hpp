// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup cache cache
/// Policies that decide which rows a cache holds, and simulations of them.
///
/// A `cache_policy` maps the ids of each batch to a `change_set`: rows that enter and leave. It sees ids only; caches
/// of module storage move the rows. `belady_policy` is optimal for batches known ahead (an `access_trace`); `lru`,
/// `s3_fifo` and `static_cache` need no trace. `simulate`, `hit_curve` and `miss_ratio_sampler` predict hits without
/// moving rows.

// Forward declarations, without default arguments of templates.
#include <cstdint>

#include <gneiss/cache/concepts.hpp>

namespace gneiss {

enum class slot_table_kind : std::uint8_t;

class any_cache_policy;
class belady_policy;
class hit_curve;
class lru;
class memory_change_sets;
class memory_trace;
class miss_ratio_sampler;
class s3_fifo;
class simulated_cache;
class slot_table;
class static_cache;
struct belady_options;
struct belady_outcome;
struct cache_counts;
struct change_set;
struct superbatch_caching;

template <class Source>
class change_set_replay;
template <access_trace Trace>
class trace_part;

} // namespace gneiss
