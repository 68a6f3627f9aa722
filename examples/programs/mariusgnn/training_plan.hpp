// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/train_partitions_first.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>

#include "graph.hpp"
#include "kit/run/plan.hpp"
#include "network.hpp"

namespace mariusgnn {

/// Input of a plan.
struct planning {
    const run_graph& graph;
    const network& net;
    std::function<std::uint64_t()> read_size;       ///< D of `gneiss::tune` [bytes], for tuning; empty: the default
    gneiss::memory_need candidates{};               ///< memory of --candidates
    std::optional<trainers::batch_drawing> draws{}; ///< none: batches are charged by upper bounds
};

/// A plan, and reasons: for its partitions if they were tuned, for nodes that keep theirs. One line each, for display.
struct tuned_plan {
    gneiss::training_plan plan;
    std::vector<std::string> reasons;
};

/// Chooses store, partitions, buffer and order within the budget. On disk, COMET's partitions and buffer come from
/// `gneiss::tune`, unless either is given.
///
/// If the number of partitions differs from the buckets', edges and graph are estimated. Throws gneiss::over_budget
/// with the parts of the smallest plan, gneiss::error (no_space), usage_error.
[[nodiscard]] tuned_plan plan_training(const options& given, const planning& of);
/// Returns the plan once the buckets are in its partitions: `trainers::choose_again`.
[[nodiscard]] gneiss::training_plan plan_again(
    const options& given, const planning& of, const gneiss::training_plan& before);

/// Recomputes the graph-dependent fields of a plan for a graph with the same number of partitions: the order of states,
/// their reads, and the bytes of buffers, which never decrease.
void take_order(const options& settings, gneiss::training_plan& plan, const run_graph& graph);

/// Returns the form of a state's graph in memory: adjacency lists, which cost a sampler O(1) per node; but blocks if a
/// swap replaces less than half of the partitions, as in BETA: copying the common part of states then takes longer than
/// lists save.
[[nodiscard]] gneiss::graph_buffer_options graph_form_of(const options& settings, const gneiss::training_plan& plan);

/// Returns the states that together hold all partitions, for `--eval-graph resident`: those of an epoch of edges; if an
/// epoch of node classification leaves partitions out, pairs of groups of them.
[[nodiscard]] gneiss::epoch_plan evaluation_states(
    const options& settings, const gneiss::training_plan& plan, std::uint64_t epoch);

/// Returns the epochs of node classification: which partitions are resident, and whose training nodes train when.
[[nodiscard]] std::function<gneiss::node_plan(std::uint64_t)> node_epochs(
    const options& settings, const gneiss::row_partitioning& partitioning, std::uint32_t slots, const run_graph& graph);

/// Returns the bytes of a dataset's copy.
[[nodiscard]] std::uint64_t copy_bytes(const gneiss::dataset_manifest& graph);

} // namespace mariusgnn
