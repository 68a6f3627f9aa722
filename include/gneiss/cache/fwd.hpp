// SPDX-License-Identifier: Apache-2.0
// Module cache: policies that decide which rows a cache in memory holds (Belady, LRU, S3-FIFO, static), change sets, access
// traces, and simulations that count hits and misses without moving rows. Forward declarations, without default template
// arguments.
#pragma once

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
