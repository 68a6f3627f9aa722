#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>

#include "trainers/common/class_options.hpp"

namespace hanoi {

/// Every flag of `gneiss-hanoi train`. Optionals that the user leaves out are chosen by `resolve`, or by the plan.
struct options final : trainers::class_options {
    std::optional<std::string> partitioner;
    std::optional<std::filesystem::path> assignment;
    std::optional<std::string> hubs; ///< a file; "0": none are pinned
    std::optional<std::uint32_t> macro; ///< partitions of a macro-batch, hubs not counted
    std::uint32_t reuse = 4;
    std::optional<std::filesystem::path> reuse_plan;

    void add_to(programs::command& to) override;
    void resolve(const gneiss::dataset& data) override;

    /// Whether the run trains on a dataset of its own, in other partitions.
    [[nodiscard]] bool partitions_anew() const { return *partitioner != "given" || hub_file(); }
    [[nodiscard]] std::optional<std::filesystem::path> hub_file() const { return hubs && *hubs != "0" ? hubs : std::nullopt; }
    /// Leading partitions that stay in memory.
    [[nodiscard]] std::uint32_t pinned(const gneiss::dataset& data) const { return hubs && *hubs == "0" ? 0 : data.manifest().pinned; }
};

} // namespace hanoi
