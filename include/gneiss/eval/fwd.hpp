// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// \defgroup eval eval
/// Metrics of link prediction and node classification.
///
/// Edges are ranked among all nodes, among sampled candidates or among given ones, raw or filtered; `top_k` lists the
/// best answers, `similar_nodes` the nearest embeddings. Accuracy, F1, ROC-AUC and average precision measure classification, with
/// one label per node or several; squared and absolute error and R² regression. Ranks and counts are integers, so metrics do not
/// depend on blocks or threads. Candidates stream from any `embedding_stream`.

// Forward declarations, without default arguments of templates.
namespace gneiss {

enum class similarity_measure : std::uint8_t;

class candidate_sets;
class classification_metrics;
class confusion_matrix;
class fixed_order_kernel;
class given_candidates;
class known_answers;
class multilabel_metrics;
class rank_metrics;
class recommendation_metrics;
class regression_metrics;
class score_not_finite;
struct answer_limits;
struct candidate_sampling;
struct link_metrics;
struct multilabel_ranking;
struct rank_counts;
struct ranking_plan;
struct ranking_shape;
struct scored_node;
struct training_edges;

} // namespace gneiss
