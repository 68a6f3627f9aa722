#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/pipeline/graph_training.hpp>

#include "trainers/common/graph_options.hpp"
#include "trainers/common/options.hpp"

namespace hanoi {

/// Every flag of `gneiss-hanoi train`. Optionals that the user leaves out are chosen by `resolve`, or by the plan.
struct options : trainers::run_options, trainers::graph_options {
    std::string sampler = "neighbour";
    std::optional<std::string> partitioner;
    std::optional<std::filesystem::path> assignment;
    std::optional<std::string> hubs; ///< a file; "0": none are pinned
    std::optional<std::uint32_t> macro; ///< partitions of a macro-batch, hubs not counted
    std::uint32_t reuse = 4;
    std::optional<std::filesystem::path> reuse_plan;

    void add_to(programs::command& to);

    /// Fills what was left out from the graph, and refuses what does not go together. Every default that depends on the
    /// graph stands here; what depends on memory is the plan's (training_plan.hpp).
    void resolve(const gneiss::dataset& data);

    /// Whether the run trains on a dataset of its own, in other partitions.
    [[nodiscard]] bool partitions_anew() const { return *partitioner != "given" || hub_file(); }
    [[nodiscard]] std::optional<std::filesystem::path> hub_file() const { return hubs && *hubs != "0" ? hubs : std::nullopt; }
    /// Leading partitions that stay in memory.
    [[nodiscard]] std::uint32_t pinned(const gneiss::dataset& data) const { return hubs && *hubs == "0" ? 0 : data.manifest().pinned; }
    [[nodiscard]] gneiss::graph_training_options training_options() const;
};

} // namespace hanoi
