// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/embeddings.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/inspected_batches.hpp>

namespace gneiss {

/// Ginex' slots (VLDB'22): batches from superbatches, features through a cache that their change sets decide.
using ginex_loop = train_loop<inspected_batches, cached_features, no_embeddings, cpu_encoder_backend<classification_head>>;

/// Where features come from: rows of a source, or all of them in memory, dense or sparse.
using feature_input = std::variant<feature_rows, std::shared_ptr<const resident_features>>;

struct superbatch_trainer_options {
    std::uint64_t batch = 1000; ///< nodes
    std::uint64_t seed = 0;
    std::size_t rows_in_flight = 2; ///< batches whose rows are in memory: the one that is computed, and those gathered ahead
    std::size_t sample_workers = 1;    ///< of `conventional`
    std::uint64_t batch_nodes = 0;     ///< that a sample has, so that there is room for `rows_in_flight` of them; one with more may run alone; 0: any number
    trace_recorder* trace = nullptr;   ///< as `pipeline_options::trace`
    superbatch_options superbatches{}; ///< their slots are set to those of the cache, if change sets decide what it holds; `trace` to this one
};

/// What a `superbatch_trainer` works with; all that is held by reference outlives the training.
struct superbatch_parts {
    any_sampler sampler; ///< of the whole graph, made with the options' seed
    feature_input features;
    std::span<const class_id> labels;    ///< of all nodes
    std::vector<node_id> training_nodes; ///< distinct
    cpu_encoder& encode;
    dense_parameters<>& weights; ///< the encoder's, allocated, with the state of `optimizer`
    dense_optimizer optimizer;   ///< steps the weights
    any_backend* backend = nullptr; ///< computes batches elsewhere than on the CPU, with the same parameters
    std::function<void()> before_sampling{}, before_gathering{}; ///< `alternate`: caches take turns in memory
};

/// Busy seconds of each stage. `sample` and `change_set` are the inspector's; `switching` is what turns cost: caches that are
/// loaded, filled and given back.
struct superbatch_times {
    double sample = 0, change_set = 0, switching = 0, load = 0, gather = 0, update = 0, compute = 0, wait = 0;
};

/// Trains a GNN for node classification, with the graph and features anywhere: `train_loop` with the slots of Ginex (VLDB'22).
///
/// Memory: rows of `rows_in_flight` batches, samples of `in_flight`, and what samplers and encoder keep; charged by the caller,
/// who knows their sizes from a profile.
/// Thread-safety: one driving thread. Source: Ginex, sections 3.1 and 3.3, Figures 7 to 9.
class superbatch_trainer {
public:
    /// Throws errc::invalid_argument for parts that do not fit together.
    superbatch_trainer(const superbatch_trainer_options& options, superbatch_parts parts, executor_ref executor);
    ~superbatch_trainer();

    /// Batches that are in memory at once, without rows: those whose rows are, and one for each thread that samples or loads.
    [[nodiscard]] static std::size_t in_flight(const superbatch_trainer_options& o) noexcept {
        return std::max<std::size_t>(o.rows_in_flight, 1) + workers(o);
    }

    /// Runs epoch `epoch` from batch `from` on, as `train_loop::run`.
    training_epoch run(std::uint64_t epoch, batch_number from = {}, const training_observer& observer = {}, const std::stop_token& stop = {});
    [[nodiscard]] std::uint64_t steps() const noexcept { return loop_.steps(); }
    void set_steps(std::uint64_t steps) noexcept { loop_.set_steps(steps); }
    /// Steps so from the next epoch on: for schedules. The state floats must be the same.
    void set_optimizer(const dense_optimizer& optimizer);

    [[nodiscard]] pipeline_statistics statistics() const { return loop_.statistics(); }
    [[nodiscard]] superbatch_statistics inspected() const { return batches_.inspected(); }
    [[nodiscard]] superbatch_times times() const;

private:
    [[nodiscard]] static bool superbatches(const superbatch_trainer_options& o) noexcept {
        return o.superbatches.schedule != superbatch_schedule::conventional;
    }
    [[nodiscard]] static std::size_t workers(const superbatch_trainer_options& o) noexcept {
        return superbatches(o) ? 1 : std::max<std::size_t>(o.sample_workers, 1);
    }

    [[nodiscard]] static inspected_batches::options batch_options(const superbatch_trainer_options& options, const superbatch_parts& parts);
    [[nodiscard]] any_features make_features(const superbatch_trainer_options& options, const superbatch_parts& parts, executor_ref executor);

    memory_budget no_budget_; // the caller charges
    inspected_batches batches_;
    std::unique_ptr<cached_features> cached_;
    any_features features_;
    any_embeddings embeddings_;
    any_backend backend_;
    any_batches any_batches_;
    any_train_loop loop_; // last: its threads use the rest
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/detail/superbatch_trainer.hpp>
#endif
