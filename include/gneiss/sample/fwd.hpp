// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup sample sample
/// Mini-batches and their contents: neighbor samples, link batches and negatives.
///
/// A sample is a view of named arrays in one block of memory (`mini_batch`) that the caller supplies and reuses.
/// `neighbor_sampler` draws layer by layer, `dense_sampler` draws a node once per batch (DENSE). `link_batch_builder`
/// makes a batch of edges with negatives of any `negative_source`. A batch is a function of seed, `batch_key` and
/// graph: the same for any thread, store and engine.

// Forward declarations, without default arguments of templates.
#include <cstdint>

#include <gneiss/core/types.hpp>

namespace gneiss {

enum class corrupted_sides : std::uint8_t;

class any_negatives;
class key_grouping;
class layer_stack;
class mini_batch;
class mini_batch_arena;
class negative_pool;
class negative_sampler;
class resident_nodes;
struct batch_key;
struct hop_fanout;
struct id_range;
struct layer_view;
struct link_batch;
struct log_q_terms;
struct negative_correction;
struct negative_options;
struct no_known_edges;

template <node_id_type NodeId>
struct dense_sample;
template <node_id_type NodeId>
class dense_sampler;
template <class Negatives>
class link_batch_builder;
template <node_id_type NodeId>
struct neighbor_sample;
template <node_id_type NodeId>
class neighbor_sample_writer;
template <node_id_type NodeId>
class neighbor_sampler;
template <class Sampler, class Weight>
class weighted;

} // namespace gneiss
