#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include <gneiss/cache/hit_curve.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/sampling/any_sampler.hpp>
#include <gneiss/sampling/node_batches.hpp>

#include "options.hpp"
#include "stores.hpp"
#include "common/training/classifier.hpp"
#include "common/training/plan.hpp"

namespace ginex {

/// What the first batches of an epoch are like; their number is at least 10, unless the epoch has fewer.
struct profile {
    std::uint64_t batches = 0;
    double nodes = 0, sample_bytes = 0;    ///< means of a batch: distinct nodes; sample with its lists
    std::uint64_t most_nodes = 0, most_edges = 0, most_bytes = 0;
    double seconds = 0;                    ///< of sampling one
    std::uint64_t list_bytes = 0;          ///< what offsets and, in memory, lists take
    gneiss::memory_trace asked;            ///< the ids of each, where change sets are to be worked out
    gneiss::hit_curve rows, lists;    ///< what caches of rows and of lists would save of its reads; empty: not asked for
};

/// Draws some batches of epoch 0. Throws errc::canceled, and what samplers throw. Where memory is to be split between two
/// caches, 16 bytes a node are in use meanwhile.
[[nodiscard]] profile take_profile(const options& settings, const topology& graph, const gneiss::csc_files& files, std::size_t row_bytes,
    const gneiss::node_batches& batches, const gneiss::tbb_executor& executor, const std::stop_token& stop);

/// What a run holds in memory and on disk, decided before it begins.
struct training_plan {
    trainers::training_plan common;
    std::uint64_t batch_nodes = 0;      ///< that a sample may have
    std::uint64_t neighbor_bytes = 0;  ///< of the cache of neighbors; 0: there is none
    std::size_t slots = 0;              ///< rows of the feature cache
    gneiss::slot_table_kind table = gneiss::slot_table_kind::hashed;
    std::uint64_t superbatch = 0;       ///< batches; 0: conventional
    std::uint64_t accesses = 0;         ///< that a superbatch may have
    bool direct_table = false;          ///< its change sets are worked out with an array over all nodes
    std::uint64_t run_file_bytes = 0;   ///< of two superbatches
    std::uint64_t cache_bytes = 0;      ///< of neighbors and rows together, as they lie in memory at the end
    bool shares_caches = false;          ///< evaluation, which comes when training is over, has their memory beside its part
    double cache_split = 1;              ///< --cache-split
    std::optional<programs::byte_size> run_files{}; ///< --run-files, of superbatches
};

/// The flags with topology, cache and pipeline chosen where they were left out, by what fits: before lists of neighbors are opened.
[[nodiscard]] options choose_stores(const options& given, const gneiss::dataset& data, const trainers::classifier& net);

/// The plan, with every part; `charged` of what the process takes is in a part of its own already. Without evaluations between epochs
/// the caches have the memory of the last one until training is over. Throws gneiss::error (over_budget) with the parts when not even
/// empty caches fit, usage_error for --run-files that hold no superbatch.
[[nodiscard]] training_plan plan_training(const options& settings, const gneiss::dataset& data, const gneiss::node_features& features,
    const trainers::classifier& net, const profile& seen, std::uint64_t charged);

} // namespace ginex
