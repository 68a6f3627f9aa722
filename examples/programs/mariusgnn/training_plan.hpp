#pragma once

#include <functional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/train_partitions_first.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>

#include "graph.hpp"
#include "network.hpp"
#include "common/training/plan.hpp"

namespace mariusgnn {

/// What a plan is made for.
struct planning {
    const run_graph& graph;
    const network& net;
    std::function<std::uint64_t()> read_size; ///< D of `gneiss::tune` [bytes], asked where partitions are tuned; empty: the usual one
};

/// A plan, and why its partitions were chosen so where they were tuned: a line each, for people.
struct tuned_plan {
    trainers::training_plan plan;
    std::vector<std::string> reasons;
};

/// Chooses store, partitions, buffer and order within the budget. On disk, COMET's partitions and buffer are those of
/// `gneiss::tune`, unless either is given.
///
/// With another number of partitions than the buckets', edges and graph are estimated. Throws gneiss::over_budget with the parts of
/// the least plan, gneiss::error (no_space), usage_error.
[[nodiscard]] tuned_plan plan_training(const options& given, const planning& of);
/// The same where the buckets are in the plan's partitions: `trainers::choose_again`.
[[nodiscard]] trainers::training_plan plan_again(const options& given, const planning& of, const trainers::training_plan& before);

/// Sets what of a plan depends on the graph for one of as many partitions: the order of states, their reads, and the bytes
/// of buffers, which never become fewer.
void take_order(const options& settings, trainers::training_plan& plan, const run_graph& graph);

/// How the graph of a state lies in memory: as lists of nodes, which costs a sampler O(1) a node; but as blocks where a swap replaces
/// less than half of the partitions, as BETA's do: to copy what states share takes longer there than lists spare.
[[nodiscard]] gneiss::graph_buffer_options graph_form_of(const options& settings, const trainers::training_plan& plan);

/// The states that together hold all partitions, for `--eval-graph resident`: those of an epoch of edges; where an epoch of classes
/// leaves partitions out, pairs of groups of them.
[[nodiscard]] gneiss::epoch_plan evaluation_states(const options& settings, const trainers::training_plan& plan, std::uint64_t epoch);

/// The epochs of a node task: which partitions are resident, and whose training nodes train when.
[[nodiscard]] std::function<gneiss::node_plan(std::uint64_t)> node_epochs(const options& settings,
    const gneiss::row_partitioning& partitioning, std::uint32_t slots, const run_graph& graph);

/// Bytes of a dataset's copy.
[[nodiscard]] std::uint64_t copy_bytes(const gneiss::dataset_manifest& graph);

} // namespace mariusgnn
