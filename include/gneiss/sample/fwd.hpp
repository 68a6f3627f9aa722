// SPDX-License-Identifier: Apache-2.0
// Module sample: mini-batches and what is drawn into them: neighbor samples (layered and DENSE), link batches and negatives.
// Forward declarations, without default template arguments.
#pragma once

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
