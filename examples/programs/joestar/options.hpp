// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/macro_batch.hpp>

#include "kit/gnn/neighbor_store.hpp"
#include "kit/gnn/node_classification_options.hpp"

namespace joestar {

/// All flags of `gneiss-joestar train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::node_classification_options {
    options() { tiers_on_cpu = true; }

    std::string first_stage = "lbs";
    std::optional<std::string> second_stage, macro_fanout;
    std::string macro = "auto"; ///< training nodes of a macro-batch: auto, a number, or a percentage
    bool delta = true;
    std::optional<std::string> topology, feature_cache;
    std::uint64_t in_flight = 2;

    void add_to(programs::command& to);

    /// True if neighborhoods are sampled in one stage.
    [[nodiscard]] bool single() const { return first_stage == "single"; }
    /// Returns --macro in training nodes; none: the plan chooses. Throws usage_error for a number that is not one.
    [[nodiscard]] std::optional<std::uint64_t> macro_nodes(const gneiss::dataset_manifest& graph) const;
    /// Returns how neighbors are read from disk. --macro that the plan chose is of another run, or of a resume: as many
    /// nodes as train bound it.
    [[nodiscard]] gneiss::disk_csc_options reading(const gneiss::dataset_manifest& graph) const {
        return trainers::neighbor_store::reading_of(
            single() ? *batch : graph.node_attributes.train, first_hops().fanout);
    }
    [[nodiscard]] gneiss::second_stage form() const {
        return *second_stage == "hops" ? gneiss::second_stage::hops : gneiss::second_stage::lists;
    }
    /// Returns what the first stage draws: --macro-fanout, else --fanout.
    [[nodiscard]] gneiss::neighbor_options first_hops() const;
    /// Returns what batches draw from the only list of a node: all of it, unless --macro-fanout drew more.
    [[nodiscard]] gneiss::neighbor_options second_hops() const;
};

/// Returns the flags with absent ones chosen from the graph; the plan chooses those that depend on memory. Throws
/// usage_error for conflicting flags, errc::invalid_argument for a dataset without labels, training nodes or features.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);

} // namespace joestar
