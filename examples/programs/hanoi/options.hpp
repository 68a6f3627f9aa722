#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>

#include "common/units.hpp"
#include "common/training/node_classification_options.hpp"

namespace hanoi {

/// Every flag of `gneiss-hanoi train`. Optionals that the user leaves out are chosen by `resolve`, or by the plan.
struct options : trainers::node_classification_options {
    std::optional<std::string> partitioner; ///< given, file, or one that makes parts (programs/common/partitioners.hpp)
    std::optional<std::filesystem::path> assignment;
    std::optional<std::string> hubs; ///< how many, auto, or a file; "0": none are pinned; absent: the dataset's
    std::optional<std::uint32_t> macro; ///< partitions of a macro-batch, hubs not counted
    std::uint32_t reuse = 4;
    std::optional<std::filesystem::path> reuse_plan;

    void add_to(programs::command& to);

    /// What `hubs` says, where that is neither none nor the dataset's: how many nodes, or those of a file.
    struct hub_choice {
        std::optional<programs::count_or_percent> count{};
        std::optional<std::filesystem::path> file{};
    };
    [[nodiscard]] hub_choice choice_of_hubs() const;
    /// Whether there are as many hubs as usual, or fewer where memory is short.
    [[nodiscard]] bool hubs_by_default() const { return hubs && *hubs == "auto"; }
    /// Whether the run makes partitions, and not only brings rows in the order of given ones.
    [[nodiscard]] bool makes_parts() const { return *partitioner != "given" && *partitioner != "file"; }
    /// Whether the run trains on a dataset of its own, in other partitions.
    [[nodiscard]] bool repartitions() const;
    /// Leading partitions that stay in memory.
    [[nodiscard]] std::uint32_t pinned(const gneiss::dataset& data) const { return hubs && *hubs == "0" ? 0 : data.manifest().pinned; }
};

/// The flags with what was left out filled in from the graph; what depends on memory is a plan's. Throws usage_error for what does
/// not go together, errc::invalid_argument for a dataset without classes, training nodes or features.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);
/// --hubs of a run with `partitioner`: chosen by default where it makes partitions and the dataset pins none.
[[nodiscard]] std::optional<std::string> hubs_with(const options& o, const std::string& partitioner, const gneiss::dataset_manifest& graph);

} // namespace hanoi
