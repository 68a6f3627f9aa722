// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/gnn_options.hpp>
#include <gneiss/train/trainers/gnn_parts.hpp>

#include "kit/gnn/class_weights.hpp"
#include "kit/gnn/classifier.hpp"
#include "kit/gnn/network.hpp"
#include "kit/gnn/node_classification_options.hpp"
#include "kit/gnn/node_truth.hpp"
#include "kit/run/device.hpp"
#include "kit/run/open_run.hpp"
#include "kit/run/run_loop.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

/// Labels or targets of all nodes, and the training nodes, ascending.
struct node_classification {
    node_truth truth;
    std::vector<gneiss::node_id> train;

    explicit node_classification(const gneiss::dataset& data)
        : truth(data),
          train(data.nodes_of(gneiss::node_split::train)) {}
    [[nodiscard]] std::span<const gneiss::class_id> labels() const { return truth.labels(); }
};

/// Link prediction by a network on given features: the flags and the network of `parts`.
struct predicted_edges {
    const link_options& how;
    network& net;
};

/// Common part of trainers on given features, for nodes or links: checkpoints of the network, the best state,
/// full-graph evaluation. Derived classes train an epoch and report on it.
class node_classification_training : public trainer {
public:
    /// Everything here outlives the trainer.
    struct parts {
        const node_classification_options& how;
        const programs::command& command;
        const gneiss::dataset& dataset; ///< the run's
        const gneiss::dataset& data;    ///< the same graph in the partitions used for training
        const gneiss::node_features& features;
        const node_classification* classes; ///< null for links
        const training_plan& plan;
        const opened_run& run;
        const gneiss::engine_choice& engine;
        classifier& net;
        gneiss::memory_budget& budget;
        device_network_parts* device; ///< computes batches, and may sample them; null for the CPU
        std::stop_token stop;         ///< stops evaluations
        std::string program;
        run_reporter& live;
        std::optional<predicted_edges> edges{}; ///< link prediction; none: node classification
    };

    epoch_end train(
        const gneiss::resume_position& from, const run_observer& observer, const std::stop_token& stop) final;
    void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) final;
    void keep_best(const programs::best_metrics& metrics) final;
    programs::metric_values evaluate_best(const std::string& split) final;
    [[nodiscard]] bool evaluates_all_splits() const final { return !of_.edges; }
    programs::metric_values evaluate(const std::string& split) final;
    programs::metric_values validate() final;
    [[nodiscard]] nlohmann::ordered_json per_class(const std::string& split) const final;
    [[nodiscard]] gneiss::staleness_histogram row_staleness() const final { return {}; }
    [[nodiscard]] bool has_finite_parameters() const final;
    [[nodiscard]] double learning_rate(std::uint64_t epoch) const final {
        return of_.how.learning_rate(epoch, plateau());
    }
    [[nodiscard]] const gneiss::memory_budget& budget() const final { return of_.budget; }
    [[nodiscard]] std::uint64_t first_steps() const final { return warm_steps_; }
    /// Returns the schedule of the layers' products, as in schedule.json; null without --schedule.
    [[nodiscard]] const nlohmann::ordered_json& layer_schedule() const noexcept { return schedule_; }
    [[nodiscard]] double device_seconds() const final {
        return of_.device == nullptr ? 0 : of_.device->backend.device_seconds();
    }

protected:
    /// Starts a run, or resumes it.
    explicit node_classification_training(const parts& of);

    /// Trains the first batches of epoch 0 by a backend, until the stop.
    using warm_up = std::function<void(
        gneiss::any_backend& by, const gneiss::training_observer& observer, const std::stop_token& stop)>;
    /// Sets the schedule of --schedule, if any, before batches are trained: that of the run that is resumed, that of
    /// the file, or the fastest on batches of the warm-up. Writes it to the run.
    void schedule_layers(const gneiss::gnn_task& task, const warm_up& train_first);

    /// Trains epoch `from.epoch` from batch `from.next` on, after `from.steps` steps.
    virtual epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer observer, const std::stop_token& stop) = 0;
    /// True if evaluations keep the resident partitions in memory.
    [[nodiscard]] bool evaluates_beside() const;
    /// Returns the memory of an evaluation [bytes]: its part and, if that is too little, the memory that buffers free.
    virtual std::uint64_t memory_between_epochs() { return of_.plan.evaluation_bytes; }
    /// Adds trainer state beyond weights and position to a checkpoint's progress.
    virtual void add_progress(nlohmann::ordered_json&) const {}

    parts of_;
    gneiss::tbb_executor executor_;

private:
    [[nodiscard]] gneiss::checkpoint header(const gneiss::resume_position& at) const;
    [[nodiscard]] classifier_source source();
    [[nodiscard]] programs::metric_values rank(const std::string& split, const programs::count_or_all& edges);

    /// Times schedules on the first batches.
    [[nodiscard]] nlohmann::ordered_json time_schedules(const gneiss::gnn_task& task, const warm_up& train_first);

    std::vector<gneiss::memory_charge> charges_;
    nlohmann::ordered_json schedule_{};
    std::uint64_t generation_ = 0, best_generation_ = 0, warm_steps_ = 0;
    std::uint64_t epoch_ = 0;                                  // trained last
    std::map<std::string, programs::metric_values> evaluated_; // since then
    std::map<std::string, nlohmann::ordered_json> per_class_;  // of the last evaluation
};

/// Checks the run of --warm-start before a new run begins. Throws errc::config_mismatch for another model,
/// errc::invalid_argument for other features.
void check_warm_start(const std::string& program, const node_classification_options& how,
    const programs::command& command, const gneiss::dataset& data);

/// Parts of macro-batches that a device keeps.
struct staged_inputs {
    std::optional<gneiss::device_macro_batches_setup> macros{}; ///< graphs, or rows; none: the host has both
    std::vector<gneiss::hop_fanout> fanout{};                   ///< by which it samples them
    std::optional<gneiss::device_histories_setup> histories{};  ///< of partitions
};

/// Returns the backend that computes the batches of a plan on `device`, and with --sample-on gpu their sampler; null
/// for the CPU, for which `device` is null too. Throws over_budget.
/// \param staged  what is there of macro-batches; null: nothing
[[nodiscard]] std::optional<device_network_parts> classifier_on(compute_device* device,
    const node_classification_options& how, classifier& net, const training_plan& plan,
    const gneiss::node_features& features, const gneiss::bucket_store& buckets, const gneiss::engine_factory& engines,
    const staged_inputs* staged = nullptr);

/// Returns the run loop's options.
[[nodiscard]] run_loop_options node_classification_loop(const gnn_options& how, const gneiss::dataset& data);
/// The same for link prediction by a GNN.
[[nodiscard]] run_loop_options link_prediction_loop(
    const gnn_options& how, const link_options& links, const gneiss::dataset_manifest& graph);

} // namespace trainers
