// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>

#include "kit/cli/units.hpp"
#include "kit/gnn/node_classification_options.hpp"
#include "kit/graph/partitioner_options.hpp"

namespace hanoi {

/// All flags of `gneiss-hanoi train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::node_classification_options {
    std::optional<std::string> partitioner;     ///< given, file, or a partitioner (programs/kit/graph/partitioners.hpp)
    programs::partitioner_options partitioning; ///< flags of the partitioner
    std::optional<std::filesystem::path> assignment;
    std::optional<std::string> hubs;    ///< a number, auto, or a file; "0": none are pinned; absent: the dataset's
    std::optional<std::uint32_t> macro; ///< partitions of a macro-batch, without hubs
    std::uint32_t reuse = 1;
    std::optional<std::filesystem::path> reuse_plan;

    void add_to(programs::command& to);

    /// Value of `hubs`, unless it is none or the dataset's: a number of nodes, or a file of them.
    struct hub_choice {
        std::optional<programs::count_or_percent> count{};
        std::optional<std::filesystem::path> file{};
    };
    [[nodiscard]] hub_choice choice_of_hubs() const;
    /// True if the number of hubs is the default: less if memory is short, none if they have little influence.
    [[nodiscard]] bool hubs_by_default() const { return hubs && *hubs == "auto"; }
    /// True if the run partitions the graph, rather than reordering rows by a given assignment.
    [[nodiscard]] bool makes_parts() const { return *partitioner != "given" && *partitioner != "file"; }
    /// True if no flag says how GAP begins and how long it refines. Then one pass decides by `most_relative_cut`; if it
    /// goes on, it begins with nothing and with the partitions of `initial_partitioner`, makes `default_passes`, and
    /// the fewer cut edges count.
    [[nodiscard]] bool gap_by_default() const {
        return *partitioner == "gap" && !partitioning.initial && !partitioning.method.passes;
    }
    static constexpr std::uint32_t default_passes = 10;
    /// Without communities that fit in partitions, further passes gather classes, and macro-batches of few classes
    /// train badly: if a first pass cuts more than this share of what random partitions cut, it is the only one.
    /// Measured: 0.89 is better with one pass, 0.22 to 0.65 with ten (docs/results/hanoi.md).
    static constexpr double most_relative_cut = .8;
    static constexpr double default_label_cap = 1.5;  ///< of GAP
    static constexpr double least_hub_influence = .1; ///< share of the walks that ends in hubs chosen by default
    static constexpr const char* initial_partitioner = "semi";
    /// Returns the job of its partitioner, without an output file. Precondition: makes_parts(), and `partitions` is
    /// known. Throws usage_error for a flag that the partitioner does not take.
    [[nodiscard]] programs::partition_job partition_job() const;
    /// True if the run trains on its own dataset, in other partitions.
    [[nodiscard]] bool repartitions() const;
    /// Returns the number of leading partitions that stay in memory.
    [[nodiscard]] std::uint32_t pinned(const gneiss::dataset& data) const {
        return hubs && *hubs == "0" ? 0 : data.manifest().pinned;
    }
};

/// Returns the flags with absent ones chosen from the graph; the plan chooses those that depend on memory. Throws
/// usage_error for conflicting flags, errc::invalid_argument for a dataset without labels, training nodes or features.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);
/// Returns --hubs of a run with `partitioner`: chosen by default if it makes partitions and the dataset pins none.
[[nodiscard]] std::optional<std::string> hubs_with(
    const options& o, const std::string& partitioner, const gneiss::dataset_manifest& graph);

} // namespace hanoi
