// SPDX-License-Identifier: Apache-2.0
// Module eval: metrics of link prediction (full, sampled and given ranking, top-k answers) and of node classification. Forward
// declarations, without default template arguments.
#pragma once

namespace gneiss {

class classification_metrics;
class fixed_order_kernel;
class given_candidates;
class known_answers;
class rank_metrics;
struct candidate_sampling;
struct link_metrics;
struct rank_counts;
struct ranking_plan;
struct ranking_shape;
struct scored_node;
struct training_edges;

} // namespace gneiss
