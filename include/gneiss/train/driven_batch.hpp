// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Keeps the data of a state in memory. Copies share it; its creator knows the type.
using lease = std::shared_ptr<const void>;

/// The fields that each batch of a training loop carries. `Work` is the data that the batches of a state share; its
/// `size()` is their number. `Rows` holds the learned rows of its state.
template <class Statistics, class Work, class Rows = lease>
struct driven_batch {
    using statistics_type = Statistics; ///< statistics of a batch
    using work_type = Work;             ///< data that the batches of a state share

    /// Returns the size of the item, for queues.
    [[nodiscard]] std::uint64_t bytes() const noexcept { return memory; }
    /// Returns the arguments of its spans.
    [[nodiscard]] trace_arguments traced() const noexcept {
        return {.epoch = key.epoch,
            .state = key.number.state,
            .pass = key.number.pass,
            .batch = key.number.index,
            .bytes = moved_bytes};
    }

    std::size_t slot = 0;             ///< index among the batches in flight
    batch_key key{};                  ///< the batch within the run
    std::uint64_t step = 0;           ///< t ≥ 1 of optimizers
    std::shared_ptr<const Work> work; ///< until a stage resets it, at the latest until the batch is applied
    bool ends_step = true;            ///< true for the last of the batches that share a step
    bool absent = false;   ///< no batch: its replica has none in the last group of a state, and steps with the others
    Rows rows{};           ///< null without rows
    Statistics statistics; ///< statistics of the batch
    std::uint64_t memory = 0;                          ///< counted by queues
    trace_track* trace = nullptr;                      ///< track of the thread that holds the batch; null: no trace
    std::uint64_t moved_bytes = trace_arguments::none; ///< by the stage, if known
};

} // namespace gneiss
