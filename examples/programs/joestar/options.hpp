// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/history_options.hpp>
#include <gneiss/train/trainers/joestar_parts.hpp>

#include "kit/gnn/neighbor_store.hpp"
#include "kit/gnn/node_classification_options.hpp"

namespace joestar {

/// Returns a hop that draws all neighbors, in the directions of `hop`.
[[nodiscard]] gneiss::hop_fanout all_of(gneiss::hop_fanout hop);

/// All flags of `gneiss-joestar train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::node_classification_options {
    options() { tiers_on_cpu = true; }

    std::string first_stage = "lbs";
    std::optional<std::string> second_stage, macro_fanout;
    std::string macro = "auto"; ///< training nodes of a macro-batch, or partitions: auto, a number, or a percentage
    bool delta = true;
    std::optional<std::filesystem::path> assignment;                ///< pbs: partitions of the nodes
    std::optional<std::string> halo, history, ahead, history_store; ///< pbs
    std::optional<std::uint64_t> history_age;                       ///< pbs; none: any age
    std::optional<std::string> topology, feature_cache;
    std::uint64_t in_flight = 2;

    void add_to(programs::command& to);

    /// True if neighborhoods are sampled in one stage.
    [[nodiscard]] bool single() const { return first_stage == "single"; }
    /// True if macro-batches are of partitions.
    [[nodiscard]] bool by_partitions() const { return first_stage == "pbs"; }
    /// True if the run partitions the graph itself.
    [[nodiscard]] bool makes_partitions(const gneiss::dataset_manifest& graph) const {
        return by_partitions() && !assignment && (partitions || graph.partition_sizes.empty());
    }
    /// Returns --macro of `all` training nodes, or partitions; none: the plan chooses. Throws usage_error for a number
    /// that is not one.
    [[nodiscard]] std::optional<std::uint64_t> macro_of(std::uint64_t all) const;
    /// Returns how neighbors are read from disk. --macro that the plan chose is of another run, or of a resume: as many
    /// nodes as train bound it.
    [[nodiscard]] gneiss::disk_csc_options reading(const gneiss::dataset_manifest& graph) const {
        return trainers::neighbor_store::reading_of(single() ? *batch
                : by_partitions()                            ? graph.nodes
                                                             : graph.node_attributes.train,
            first_hops().fanout);
    }
    [[nodiscard]] gneiss::second_stage form() const {
        if (by_partitions()) return ahead == "exact" ? gneiss::second_stage::drawn : gneiss::second_stage::lists;
        return second_stage == "hops" ? gneiss::second_stage::hops : gneiss::second_stage::lists;
    }
    /// Returns what the first stage draws: --macro-fanout, else --fanout; of partitions all neighbors, but with --ahead
    /// exact.
    [[nodiscard]] gneiss::neighbor_options first_hops() const;
    /// Returns what batches draw from the only list of a node: all of it, unless --macro-fanout drew more.
    [[nodiscard]] gneiss::neighbor_options second_hops() const;
    /// True if the device keeps macro-batches: it samples them, or reads their features.
    [[nodiscard]] bool stages_on_device() const {
        return !single() && (sample_on == "gpu" || feature_place == "device");
    }
    [[nodiscard]] gneiss::sampled_ahead sampled() const {
        return ahead == "off"  ? gneiss::sampled_ahead::off
            : ahead == "reach" ? gneiss::sampled_ahead::reach
                               : gneiss::sampled_ahead::exact;
    }
    [[nodiscard]] gneiss::history_options histories() const;
    /// Returns the histories of hidden layers that the device keeps, of these partitions, all of them.
    [[nodiscard]] gneiss::device_histories_setup histories_on_device(
        std::vector<gneiss::hidden_rows> hidden, const gneiss::macro_batch_border& border) const {
        return {.layers = std::move(hidden),
            .options = histories(),
            .parts = border.parts(),
            .partitions = border.partitions()};
    }
};

/// Returns the flags with absent ones chosen from the graph; the plan chooses those that depend on memory. Throws
/// usage_error for conflicting flags, errc::invalid_argument for a dataset without labels, training nodes or features.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);

} // namespace joestar
