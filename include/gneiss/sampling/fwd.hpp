// SPDX-License-Identifier: Apache-2.0
// Module sampling: batches of link prediction and node classification, type-erased samplers, and superbatches sampled ahead of
// training. Forward declarations, without default template arguments.
#pragma once

#include <cstdint>

namespace gneiss {

enum class sampler_kind : std::uint8_t;
enum class superbatch_schedule : std::uint8_t;

class any_graph_sampler;
class any_sampler;
class node_batches;
class superbatch;
class superbatch_inspector;
struct drawn_sample;
struct link_batch_bound;
struct link_state;
struct superbatch_options;
struct superbatch_statistics;

template <class Negatives>
class link_sampler;

} // namespace gneiss
