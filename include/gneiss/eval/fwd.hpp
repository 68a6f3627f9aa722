// SPDX-License-Identifier: Apache-2.0
// Forward declarations of module eval, without the default arguments of templates, which stand in their headers.
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
