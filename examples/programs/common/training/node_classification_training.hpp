#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/train/gnn_trainer_options.hpp>

#include "common/training/node_classification_options.hpp"
#include "common/training/classifier.hpp"
#include "common/training/open_run.hpp"
#include "common/training/run_loop.hpp"
#include "common/training/device.hpp"

namespace trainers {

/// Classes of all nodes, and those that train, ascending.
struct node_classification {
    gneiss::mapped_array<std::int32_t> stored;
    std::vector<gneiss::node_id> train;

    explicit node_classification(const gneiss::dataset& data)
        : stored(data.labels()), train(data.nodes_of(gneiss::node_split::train)) {}
    [[nodiscard]] std::span<const gneiss::class_id> labels() const { return gneiss::classes_of(stored.values()); }
};

/// What designs for node classification share: checkpoints of the weights, the best state, evaluation by the whole
/// graph. What differs is how an epoch is trained, and what is told of it.
class node_classification_training : public trainer {
public:
    /// All outlive the design.
    struct parts {
        const node_classification_options& how;
        const programs::command& command;
        const gneiss::dataset& dataset; ///< the run's
        const gneiss::dataset& data;    ///< the same in the partitions that are trained on
        const gneiss::node_features& features;
        const node_classification& classes;
        const training_plan& plan;
        const opened_run& run;
        const gneiss::engine_choice& engine;
        classifier& net;
        gneiss::memory_budget& budget;
        gneiss::any_backend* backend; ///< what computes batches elsewhere than on the CPU, or null
        std::stop_token stop; ///< of evaluations
    };

    epoch_end train(const gneiss::resume_position& from, const run_observer& observer, const std::stop_token& stop) final;
    void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) final;
    void keep_best(const programs::best_metrics& metrics) final;
    programs::metric_values evaluate(const std::string& split) final;
    [[nodiscard]] gneiss::staleness_histogram row_staleness() const final { return {}; }
    [[nodiscard]] double device_seconds() const final { return of_.backend == nullptr ? 0 : of_.backend->device_seconds(); }

protected:
    /// Starts a run, or goes on with it.
    explicit node_classification_training(const parts& of);

    /// Trains epoch `from.epoch` from batch `from.next` on.
    virtual epoch_end train_epoch(
        const gneiss::resume_position& from, gneiss::training_observer told, const std::stop_token& stop) = 0;
    /// Whether evaluations leave what is resident where it is.
    [[nodiscard]] bool evaluates_beside() const;
    /// Bytes that an evaluation may take: its part, and where that is too little also what is lent to it.
    virtual std::uint64_t memory_between_epochs() { return of_.plan.evaluation_bytes; }
    /// Adds to a checkpoint's progress what the design goes on from, beside weights and position.
    virtual void add_progress(nlohmann::ordered_json&) const {}

    /// What a checkpoint of the run tells of progress. Precondition: there is one.
    [[nodiscard]] nlohmann::ordered_json saved_progress() const;

    parts of_;
    gneiss::tbb_executor executor_;

private:
    [[nodiscard]] gneiss::checkpoint header(const gneiss::resume_position& at) const;

    std::vector<gneiss::memory_charge> charges_;
    std::uint64_t generation_ = 0, best_generation_ = 0;
    std::uint64_t epoch_ = 0;                                   // trained last
    std::map<std::string, programs::metric_values> evaluated_; // since then
};

/// What computes such a run's batches on `device`; null for the CPU, which is null, too. Throws over_budget.
[[nodiscard]] std::optional<gneiss::any_backend> classifier_on(compute_device* device, const node_classification_options& how, classifier& net);

/// The course of such a run.
[[nodiscard]] run_loop_options node_classification_loop(const node_classification_options& how, const gneiss::dataset_manifest& graph);

} // namespace trainers
