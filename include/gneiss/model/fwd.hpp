// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup model model
/// Decoders, losses, GNN encoders, optimizers, parameters, and kernels for a CPU.
///
/// For link prediction a `decoder` scores edges, a `ranking_loss` compares a positive with negatives, and `link_model`
/// computes loss and gradients of a batch. For GNNs an `encoder` stacks `graph_layer`s over the layers of a sample.
/// Optimizers step rows (`any_row_optimizer`) or all weights (`dense_optimizer`). Decoder, layer, loss and optimizer
/// are open to types of your own.

/// \defgroup model_decoder model/decoder
/// \ingroup model
/// Decoders: dot product, DistMult, ComplEx, TransE.

/// \defgroup model_layer model/layer
/// \ingroup model
/// GNN layers: GraphSAGE, GCN, GAT, linear, and message passing layers of your own.

/// \defgroup model_backend model/backend
/// \ingroup model
/// Kernels of layers and link models on a CPU: plain loops, and Eigen products.

// Forward declarations, without default arguments of templates.
#include <cstdint>

#include <gneiss/model/kernels.hpp>

namespace gneiss {

enum class activation : std::uint8_t;
enum class embedding_kind : std::uint32_t;
enum class gcn_normalization : std::uint8_t;
enum class layer_kind : std::uint8_t;
enum class message_reduction : std::uint8_t;
enum class norm_penalty : std::uint8_t;
enum class reduction : std::uint8_t;
enum class sage_reduction : std::uint8_t;
enum class similarity : std::uint8_t;

class any_link_model;
class any_loss;
class any_row_optimizer;
class dense_optimizer;
class dropout_mask;
class dropout_rate;
class embedding_table;
class link_scorer;
class query_log;
class random_layer_views;
class self_loops;
class sparse_gradients;
struct adagrad;
struct adam;
struct classification_statistics;
struct complex_decoder;
struct dense_optimizer_options;
struct distmult_decoder;
struct dot_decoder;
struct edge_part;
struct edge_segments;
struct gat_options;
struct gcn_options;
struct gradient_check_options;
struct gradient_report;
struct initializer;
struct input_columns;
struct layer_defaults;
struct layer_options;
struct layer_sizes;
struct layer_surround;
struct library_layer;
struct link_model_options;
struct link_model_tuning;
struct link_query;
struct link_statistics;
struct logical_rows;
struct logistic_loss;
struct margin_loss;
struct marius_loss;
struct part_columns;
struct query_log_options;
struct regularizer;
struct sage_options;
struct schedule;
struct sgd;
struct softmax_loss;
struct transe_decoder;

template <class T, gnn_kernels<T> Backend>
class any_layer_factory;
template <class T>
class dense_parameters;
template <class T, class Backend>
class encoder;
template <class T>
struct encoder_hook;
template <class T>
struct encoder_pass;
template <class T>
struct epilogue;
template <class T, gnn_kernels<T> Backend>
class gat_layer;
template <class T, gnn_kernels<T> Backend>
class gcn_layer;
template <class T>
class graph_layer;
template <class T>
struct input_rows;
template <class T, gnn_kernels<T> Backend>
class layer_context;
template <class T>
struct layer_input;
template <class T, gnn_kernels<T> Backend>
class linear_aggregation;
template <class T, gnn_kernels<T> Backend>
class linear_layer;
template <class Decoder, class Loss, class Backend>
class link_model;
template <class T>
struct loss_and_gradient;
template <class T, gnn_kernels<T> Backend, class Layer>
class message_layer;
template <class Layer>
struct message_passing;
template <class T>
class missing_neighbors;
template <class T>
struct plain_backend;
template <class T>
class reusable_buffer;
template <class T>
struct row_kernels;
template <class T, gnn_kernels<T> Backend>
class sage_layer;
template <class T>
struct segment_kernels;
template <class T>
struct sparse_rows;

} // namespace gneiss
