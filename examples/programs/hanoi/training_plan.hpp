#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/node_plan.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>

#include "options.hpp"
#include "common/training/classifier.hpp"
#include "common/training/plan.hpp"

namespace hanoi {

/// Macro-batches have the hubs in common and nothing else.
inline constexpr gneiss::graph_buffer_options macro_graph{.form = gneiss::graph_form::csr};

/// An epoch of a run on `data`.
[[nodiscard]] gneiss::node_plan epoch_of(const options& settings, const gneiss::dataset& data, std::uint64_t epoch);
/// Its states, and the one that the next epoch begins with.
[[nodiscard]] gneiss::epoch_plan with_next(const options& settings, const gneiss::dataset& data, std::uint64_t epoch);

/// Flags with who makes the partitions, and how many, where that is left to the memory: none, where all of the dataset fits as one
/// macro-batch; else so many that a macro-batch holds about 16 of them, within 64 nodes a partition and 1024 partitions.
struct partitions_choice {
    options flags;
    std::string reason{}; ///< what was chosen and why, for people; empty where nothing was to be chosen
};
[[nodiscard]] partitions_choice choose_partitions(
    const options& given, const gneiss::dataset& from, const gneiss::node_features& features, const trainers::classifier& net);

/// A plan, and the partitions of its macro-batches, hubs not counted.
struct macro_plan {
    trainers::training_plan plan;
    std::uint32_t macro = 0;
};

/// Chooses the largest macro-batch of which two fit the budget beside hubs and stages.
///
/// \param data  in the partitions that the run trains on
/// Throws gneiss::over_budget with the parts of the least plan, and what would fit where --macro is too large.
[[nodiscard]] macro_plan plan_training(
    const options& settings, const gneiss::dataset& data, const gneiss::node_features& features, const trainers::classifier& net);

/// The same where the partitions are still to be made: of as many nodes as a partition may have at most and their share of
/// the edges, as if no edge lay between two partitions, with as many hubs as flags ask for. `from` is what they are made of.
[[nodiscard]] macro_plan plan_by_sizes(
    const options& settings, const gneiss::dataset& from, const gneiss::node_features& features, const trainers::classifier& net);

/// Nodes of each partition that an assignment names: integers [nodes], .npy, all below 16383 and half the nodes. Memory: 8
/// bytes a partition. Throws errc::invalid_format, errc::out_of_range naming the entry, io_error.
[[nodiscard]] std::vector<std::uint64_t> sizes_in_assignment(const std::filesystem::path& file, const gneiss::dataset& data);

} // namespace hanoi
