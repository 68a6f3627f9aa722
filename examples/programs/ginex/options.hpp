// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/train/trainers/ginex.hpp>

#include "kit/gnn/node_classification_options.hpp"

namespace ginex {

/// All flags of `gneiss-ginex train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::node_classification_options, trainers::link_options {
    std::optional<std::string> preset;
    std::optional<std::string> topology, feature_cache, pipeline;
    std::optional<double> cache_split; ///< fraction of the caches' memory for neighbors, 0 to 1
    std::optional<std::string> adjacency_cache_score;
    std::optional<std::uint64_t> superbatch;
    std::optional<programs::byte_size> run_files;
    std::optional<bool> carry;
    std::optional<std::string> gather;
    std::optional<std::string> neighbor_reads;
    std::optional<std::uint64_t> gather_threads;
    std::optional<std::uint64_t> in_flight;

    void add_to(programs::command& to);

    [[nodiscard]] gneiss::superbatch_schedule pipeline_schedule() const;
    [[nodiscard]] bool superbatches() const { return *pipeline != "conventional"; }
    /// True if the misses of superbatches may be dealt out: their batches are known when the cache is filled.
    [[nodiscard]] bool deals_rows() const { return *gather != "random" && *feature_cache == "belady"; }
    /// True if the neighbors of superbatches may be read in passes.
    [[nodiscard]] bool passes_neighbors() const {
        return *neighbor_reads != "random" && *topology == "disk" && superbatches() && sampler != "layerwise";
    }
    /// True if features are read row by row through a cache in memory.
    [[nodiscard]] bool caches_rows() const {
        return *feature_cache != "none" && *feature_cache != "mmap" && *feature_cache != "memory" &&
            !tier_by_change_sets();
    }
    /// True if the cache that change sets control is on the device.
    [[nodiscard]] bool tier_by_change_sets() const {
        return feature_place == "tier" && feature_cache && *feature_cache == "belady";
    }
};

/// Returns the flags with absent ones chosen from the graph; the plan chooses those that depend on memory. Throws
/// usage_error for conflicting flags, errc::invalid_argument for a dataset without features or, for nodes, without
/// labels or training nodes.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);

} // namespace ginex
