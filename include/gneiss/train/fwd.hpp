// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup train train
/// The training loop, its slots, the pipeline below it, and the trainers.
///
/// `train_loop` runs batches of a plan's states through produce, gather, compute and update, with bounded staleness.
/// Its slots are concepts (slots.hpp): batches, features, embeddings, backend, gradient reducer. Types that fill them
/// are in tasks.hpp, sampled_batches.hpp, features.hpp, embeddings.hpp and cpu_backend.hpp. `epoch_driver` and
/// `training_pipeline` run loops of your own. The trainers fix slots: `embedding_trainer` those of Marius,
/// `gnn_trainer` those of MariusGNN and Hanoi, `superbatch_trainer` those of Ginex.

// Forward declarations, without default arguments of templates.
#include <cstdint>

namespace gneiss {

enum class cache_between_superbatches : std::uint8_t;
enum class phase : std::uint8_t;
enum class stage : std::uint8_t;
enum class step_place : std::uint8_t;
enum class target_loss : std::uint8_t;

class any_backend;
class any_batches;
class any_embeddings;
class any_features;
class buffered_embeddings;
class buffered_features;
class buffered_topology;
class cached_features;
class divergence;
class embedding_trainer;
class features_in_memory;
class gnn_trainer;
class inspected_batches;
class link_head;
class macro_batch_reuse;
class matrix_features;
class node_task;
class row_room;
class row_staleness_sampler;
class staleness_gate;
class state_sizes;
class superbatch_trainer;
struct batch_memory;
struct batch_profile;
struct classification_head;
struct classified_nodes;
struct cpu_encoder_backend_options;
struct decoder_setup;
struct device_choices;
struct device_embeddings;
struct device_sampling_setup;
struct drawn_nodes;
struct embedding_parts;
struct embedding_trainer_options;
struct epoch_start;
struct feature_rows;
struct frozen_parts;
struct gnn_memory;
struct gnn_parts;
struct gnn_shape;
struct gnn_trainer_options;
struct graph_inputs;
struct host_backend;
struct identity_reducer;
struct link_head_options;
struct link_task_options;
struct network_setup;
struct node_targets;
struct no_embeddings;
struct no_features;
struct no_hops;
struct no_topology;
struct pipeline_options;
struct pipeline_statistics;
struct predicted_links;
struct queue_capacity;
struct row_memory;
struct seed_set;
struct staleness_bound;
struct staleness_histogram;
struct state_work;
struct superbatch_parts;
struct superbatch_times;
struct superbatch_trainer_options;
struct target_head;
struct target_task;
struct targeted_nodes;
struct train_loop_options;
struct training_batch;
struct training_optimizers;
struct training_statistics;

template <class Head>
class cpu_embedding_backend;
template <class Head>
class cpu_encoder_backend;
template <class Statistics, class Work, class Rows>
struct driven_batch;
template <class Batch, class Tables>
class epoch_driver;
template <class Statistics>
struct epoch_observer;
template <class Statistics>
struct epoch_result;
template <class G>
class graph_in_memory;
template <class Negatives>
class link_task;
template <class T>
class ordered_queue;
template <class Batch>
struct pipeline_stages;
template <class Task, class Topology, class Sampler>
class sampled_batches;
template <class Batches, class Features, class Embeddings, class Backend, class Reducer>
class train_loop;
template <class Batch>
class training_pipeline;

} // namespace gneiss
