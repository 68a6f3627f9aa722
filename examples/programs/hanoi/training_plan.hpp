// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/node_plan.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>

#include "kit/gnn/classifier.hpp"
#include "kit/run/plan.hpp"
#include "options.hpp"

namespace hanoi {

/// Macro-batches share only the hubs.
inline constexpr gneiss::graph_buffer_options macro_graph{.form = gneiss::graph_form::csr};

/// Returns an epoch of a run on `data`.
[[nodiscard]] gneiss::node_plan epoch_of(const options& settings, const gneiss::dataset& data, std::uint64_t epoch);
/// Returns its states, and the first one of the next epoch.
[[nodiscard]] gneiss::epoch_plan with_next(const options& settings, const gneiss::dataset& data, std::uint64_t epoch);

/// Flags with partitioner and number of partitions, if these are chosen by memory: no partitioning if the whole dataset
/// fits as one macro-batch; else enough partitions for about 16 per macro-batch, within 64 nodes per partition and 1024
/// partitions.
struct partitions_choice {
    options flags;
    std::string reason{}; ///< explanation of the choice, for display; empty if there was none
};
[[nodiscard]] partitions_choice choose_partitions(const options& given, const gneiss::dataset& from,
    const gneiss::node_features& features, const trainers::classifier& net);

/// A plan, and the number of partitions of its macro-batches, without hubs.
struct macro_plan {
    gneiss::training_plan plan;
    std::uint32_t macro = 0;
};

/// Chooses the largest macro-batch of which two fit the budget together with hubs and stages.
///
/// \param data   in the partitions that the run trains on
/// \param draws  charges for batches as they are drawn; none: for upper bounds
/// Throws gneiss::over_budget with the parts of the smallest plan, and what would fit if --macro is too large.
[[nodiscard]] macro_plan plan_training(const options& settings, const gneiss::dataset& data,
    const gneiss::node_features& features, const trainers::classifier& net,
    const std::optional<trainers::batch_drawing>& draws);

/// Chooses a plan before the partitions exist: they have the maximum number of nodes and their share of the edges,
/// without edges between partitions, and the number of hubs that the flags request. `from` is their source.
[[nodiscard]] macro_plan plan_by_sizes(const options& settings, const gneiss::dataset& from,
    const gneiss::node_features& features, const trainers::classifier& net);

/// Returns the disk space of a run, without that of its own partitions: weights in a checkpoint and in the best state,
/// each twice while it is written; and rows of an evaluation in `memory` bytes.
[[nodiscard]] std::uint64_t run_files(const options& settings, const gneiss::dataset& data,
    const gneiss::node_features& features, const trainers::classifier& net, std::uint64_t memory);

/// Returns the number of nodes of each partition in an assignment: integers [nodes], .npy or one per line, all below
/// 16383 and half the nodes.
/// Memory: 8 bytes per partition. Throws errc::invalid_format, errc::out_of_range naming the entry, io_error.
[[nodiscard]] std::vector<std::uint64_t> sizes_in_assignment(
    const std::filesystem::path& file, const gneiss::dataset& data);

} // namespace hanoi
