// SPDX-License-Identifier: Apache-2.0
// Forward declarations of module train, without the default arguments of templates, which stand in their headers.
#pragma once

#include <cstdint>

#include <gneiss/train/concepts.hpp>

namespace gneiss {

enum class stage : std::uint8_t;
enum class step_place : std::uint8_t;

class cpu_embedding_compute;
class cpu_link_compute;
class cpu_node_compute;
class graph_compute;
class graph_sampler;
class graph_training;
class link_compute;
class link_training;
class macro_batch_reuse;
class row_staleness_sampler;
class staleness_gate;
class state_sizes;
class superbatch_training;
struct classifier_step;
struct computed_batch;
struct computed_links;
struct drawn_nodes;
struct feature_rows;
struct graph_batch;
struct graph_inputs;
struct graph_memory;
struct graph_shape;
struct graph_state;
struct graph_statistics;
struct graph_training_options;
struct link_task;
struct link_training_options;
struct node_task;
struct pipeline_options;
struct pipeline_statistics;
struct queue_capacity;
struct staleness_histogram;
struct superbatch_parts;
struct superbatch_times;
struct superbatch_training_options;

template <class Batch>
class batch_compute;
template <class Compute>
class compute_stage;
template <class Statistics, class Work>
struct driven_batch;
template <class Batch>
class epoch_driver;
template <class Statistics>
struct epoch_observer;
template <class Statistics>
struct epoch_result;
template <class T>
class ordered_queue;
template <class Batch>
struct pipeline_stages;
template <pipeline_item Batch>
class training_pipeline;

} // namespace gneiss
