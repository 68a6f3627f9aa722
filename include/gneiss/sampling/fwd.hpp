// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup sampling sampling
/// Batches of link prediction and node classification, and superbatches sampled ahead of training.
///
/// It joins samplers with the data of a state: `link_sampler` cuts and samples batches of edges, `node_batches` cuts
/// training nodes, `any_sampler` holds a sampler with its graph. `superbatch_inspector` samples many batches ahead and
/// computes the contents of a cache for each (Ginex); `superbatch_sampler` reads their neighbors in passes.

// Forward declarations, without default arguments of templates.
#include <cstdint>

namespace gneiss {

enum class sampler_kind : std::uint8_t;
enum class superbatch_schedule : std::uint8_t;

class any_graph_sampler;
class any_sampler;
class node_batches;
class superbatch;
class superbatch_inspector;
class superbatch_sampler;
struct drawn_sample;
struct link_batch_bound;
struct link_state;
struct neighbor_choice;
struct superbatch_options;
struct superbatch_sampler_options;
struct superbatch_statistics;

template <class Sets>
class candidate_negatives;
template <class Negatives>
class link_sampler;

} // namespace gneiss
