// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/cache/hit_curve.hpp>
#include <gneiss/cache/slot_table.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/superbatch/seed_batches.hpp>

#include "kit/gnn/network.hpp"
#include "kit/run/plan.hpp"
#include "options.hpp"
#include "stores.hpp"

namespace ginex {

/// Profile of the first batches of an epoch: at least 10, unless the epoch has fewer.
struct profile {
    std::uint64_t batches = 0;
    double nodes = 0, sample_bytes = 0; ///< means of a batch: distinct nodes; sample with its lists
    std::uint64_t most_nodes = 0, most_edges = 0, most_bytes = 0;
    std::uint64_t most_encoder = 0;                     ///< memory of the encoder [bytes]
    double seconds = 0;                                 ///< mean time of sampling a batch
    std::vector<gneiss::memory_need> lists_in_memory{}; ///< offsets and, if neighbors are in memory, these
    gneiss::memory_trace asked;                         ///< ids of each batch, if change sets are to be computed
    gneiss::hit_curve rows, lists; ///< reads that caches of rows and of lists would save; empty: not requested
};

/// Samples some batches of epoch 0. If memory is to be split between two caches, charges 12 or 16 bytes per node
/// meanwhile.
/// Throws errc::canceled, errc::over_budget, and errors of samplers.
[[nodiscard]] profile take_profile(const options& settings, const topology& graph, const gneiss::csc_files& files,
    std::size_t row_bytes, const gneiss::seed_batches& batches, const trainers::classifier& net,
    const gneiss::tbb_executor& executor, gneiss::memory_budget& budget, const std::stop_token& stop);

/// Memory and disk space of a run, decided before it begins.
struct training_plan {
    gneiss::training_plan common;
    std::uint64_t batch_nodes = 0;                    ///< of the large samples; one of more runs alone
    std::uint64_t room_nodes = 0;                     ///< rows in memory at once, for each batch in flight
    std::uint64_t encoder_bytes = 0, spare_bytes = 0; ///< of the encoder, and for a batch that runs alone; 0: no bound
    std::uint64_t neighbor_bytes = 0;                 ///< neighbor cache; 0: none
    std::size_t slots = 0;                            ///< rows of the feature cache
    gneiss::slot_table_kind table = gneiss::slot_table_kind::hashed;
    std::uint64_t superbatch = 0;     ///< batches; 0: conventional
    std::uint64_t accesses = 0;       ///< maximum of a superbatch
    bool direct_table = false;        ///< its change sets are computed with an array over all nodes
    std::uint64_t run_file_bytes = 0; ///< disk space of two superbatches
    std::uint64_t cache_bytes = 0;    ///< neighbor and feature cache together, in memory at the end
    std::uint64_t staging_bytes = 0;  ///< memory that requests for rows read into
    std::uint64_t dealing_bytes = 0;  ///< memory for dealing rows out, without bitmaps; 0: rows are read at random
    std::uint64_t pass_bytes = 0;     ///< memory for passes over neighbors; 0: they are read at random
    std::uint64_t batch_bytes = 0;    ///< expected memory of a batch in a pass
    bool shares_caches = false; ///< evaluation, after training, may use the caches' memory in addition to its part
    double cache_split = 1;     ///< --cache-split
    std::optional<programs::byte_size> run_files{}; ///< --run-files, space for superbatches
};

/// Returns an estimate of the memory of a run whose neighbors and features are in memory.
[[nodiscard]] std::uint64_t bytes_in_memory(
    const options& settings, const gneiss::dataset& data, const trainers::classifier& net);
/// Returns the flags with absent topology, cache and pipeline chosen by what fits, before adjacency files are opened.
[[nodiscard]] options choose_stores(const options& given, const gneiss::dataset& data, const trainers::classifier& net);

/// Returns the plan of epochs of `batches` batches, with every part; `charged` bytes of the process are already in a
/// part of their own, `candidates` are those of negatives. Without evaluations between epochs, the caches have the
/// memory of the last evaluation until training is over. Throws gneiss::error (over_budget) with the parts if not even
/// empty caches fit, usage_error for a --run-files too small for a superbatch.
[[nodiscard]] training_plan plan_training(const options& settings, const gneiss::dataset& data,
    const gneiss::node_features& features, const trainers::network& net, const profile& seen, std::uint64_t batches,
    const gneiss::memory_need& candidates, std::uint64_t charged);

} // namespace ginex
