// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/two_stage_batches.hpp>

#include "kit/gnn/neighbor_store.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/run/device.hpp"
#include "kit/run/plan.hpp"
#include "options.hpp"

namespace joestar {

/// Location of histories: the host's memory, a file, the device's memory, or pinned memory that it reads and writes.
/// With a file, memory or the device has those of a macro-batch.
enum class history_place : std::uint8_t { memory, disk, device, pinned };
/// Returns the `--history-store` of a place.
[[nodiscard]] constexpr std::string_view store_of(history_place place) noexcept {
    return place == history_place::disk ? "disk" : place == history_place::device ? "device" : "memory";
}

/// Sizes of a macro-batch and of batches within it, as drawn, or of partitions bounds; without macro-batches, of
/// batches.
struct profile {
    std::uint64_t large = 0;  ///< training nodes of the macro-batch, or partitions
    std::uint64_t nodes = 0;  ///< distinct ones in it
    std::uint64_t rows = 0;   ///< nodes with features
    std::uint64_t inside = 0; ///< nodes of partitions; those around them
    std::uint64_t halo = 0;
    history_place past = history_place::memory; ///< histories
    std::uint64_t edges = 0;                    ///< drawn by the first stage
    std::uint64_t bytes = 0;                    ///< of lists and ids
    std::uint64_t batch_nodes = 0;              ///< most of a batch, likewise below
    std::uint64_t batch_edges = 0;
    std::uint64_t batch_bytes = 0;
    std::uint64_t encoder = 0;
};

/// Memory of a run, decided before it begins.
struct training_plan {
    gneiss::training_plan common;
    std::uint64_t large = 0; ///< training nodes of a macro-batch, or partitions; 0: there is none
    gneiss::macro_batch_options macro_batches{};
    history_place past = history_place::memory;
    std::uint64_t most_inside = 0, most_halo = 0; ///< nodes of a macro-batch of partitions
    std::uint64_t macro_bytes = 0;                ///< of macro-batches, which an evaluation uses meanwhile
    std::uint64_t staging_bytes = 0, room_nodes = 0, encoder_bytes = 0, spare_bytes = 0; ///< as of gneiss-ginex
    std::string traffic{};                                                               ///< modeled, for display
    gneiss::device_macro_batches_setup on_device{};  ///< macro-batches there; of no nodes: there are none
    gneiss::device_histories_setup past_on_device{}; ///< histories there, with --device cuda
    std::vector<gneiss::memory_need> device_needs{}; ///< memory there that is known before batches are
};

/// Parts that a plan is made for.
struct planned_run {
    const options& how;
    const gneiss::dataset& data;
    const gneiss::node_features& features;
    const trainers::classifier& net;
    const trainers::neighbor_store& lists;
    std::span<const gneiss::node_id> train;
    const gneiss::macro_batch_border* border = nullptr; ///< partitions; null: macro-batches are of large batches
    const gneiss::tbb_executor& executor;
    const trainers::compute_device* device = nullptr; ///< null: the CPU computes batches
    std::uint64_t charged = 0;                        ///< bytes of the process that are in a part of their own
    std::stop_token stop{};
};

/// Chooses --macro: the largest macro-batch of which two fit with everything else, by samples of small ones first.
/// Throws over_budget with the parts of the smallest plan, errc::canceled, errors of sampling.
[[nodiscard]] training_plan plan_training(const planned_run& run);

/// Returns an estimate of the memory of a run with neighbors and features in memory.
[[nodiscard]] std::uint64_t bytes_in_memory(
    const options& how, const gneiss::dataset& data, const trainers::classifier& net);

} // namespace joestar
