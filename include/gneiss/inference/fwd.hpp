// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \defgroup inference inference
/// Layer-wise inference of a GNN over all nodes, within a memory budget.
///
/// `infer_layerwise` computes one layer for all nodes before the next. Rows, edges and features come from disk in
/// blocks, and rows between layers go to memory or to a file, as a plan made in advance says.

// Forward declarations, without default arguments of templates.
namespace gneiss {

struct layerwise_edges;
struct layerwise_input;
struct layerwise_options;
struct layerwise_plan;
struct layerwise_result;

} // namespace gneiss
