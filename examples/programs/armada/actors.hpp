// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/trainers/armada.hpp>
#include <gneiss/train/worker_batches.hpp>

#include "kit/gnn/classifier.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "options.hpp"

namespace armada {

/// Workers change many partitions at once, and share none; with remote construction, each has the lists of its own
/// nodes.
[[nodiscard]] inline gneiss::graph_buffer_options worker_graph(const options& how) noexcept {
    if (how.construction() == gneiss::construction::remote) return {.owned_lists = true};
    return {.form = gneiss::graph_form::csr};
}

/// Returns the options of the workers that make the batches of a run. Precondition: the rest outlives them.
[[nodiscard]] gneiss::worker_options worker_options_of(const options& how, const gneiss::dataset& data,
    const gneiss::row_partitioning& rows, std::span<const gneiss::node_id> train);

/// Returns a function that makes the empty cache of --feature-cache; none without one. For a static cache, it reads all
/// edges once.
[[nodiscard]] std::function<gneiss::delivery_planner()> make_cache(
    const options& how, const gneiss::bucket_store& buckets);

/// Memory of a logical worker's partitions [bytes].
struct worker_memory {
    std::uint64_t graph = 0, features = 0;
};

/// Returns a checksum of a dataset: of its manifest, and of the checksums of its arrays. Reads those, not the data.
[[nodiscard]] std::uint64_t dataset_sum(const gneiss::dataset& data);

/// Base of actors: opens the dataset by the flags of the run's config.toml.
class actor {
public:
    actor(const actor&) = delete;
    actor& operator=(const actor&) = delete;

    /// Returns the run's number in `frame_id`.
    [[nodiscard]] std::uint64_t run() const { return flags_.frame_run(data_); }
    /// Returns `dataset_sum` of the dataset.
    [[nodiscard]] std::uint64_t dataset() const { return dataset_sum(data_); }

protected:
    /// \param config   of the run, resolved
    /// \param threads  0: as in the configuration
    actor(const std::filesystem::path& config, std::uint64_t threads);
    ~actor() = default;

    gneiss::dataset data_;
    options flags_;
    gneiss::node_features features_;
    trainers::classifier net_;
    trainers::node_classification classes_;
    gneiss::tbb_executor executor_;
    gneiss::gnn_task task_;

private:
    explicit actor(const options& given);
};

/// Makes the batches of logical workers. The partitions in memory are a cache: batches may come in any order, those of
/// one worker fastest in that of their numbers.
class batch_actor : public actor {
public:
    /// \param compute_workers  processes with replicas
    batch_actor(const std::filesystem::path& config, std::uint64_t threads, const worker_memory& memory,
        std::uint32_t compute_workers);

    /// Returns the frames of the group of a batch.
    ///
    /// \param delivery  of the group's rows to a compute worker's cache; null: there is none
    [[nodiscard]] std::shared_ptr<const gneiss::group_frames> make(
        std::uint32_t worker, const gneiss::batch_key& key, const gneiss::row_delivery* delivery = nullptr);
    /// Returns the distinct input nodes of the group of a batch, which is sampled for that.
    [[nodiscard]] std::vector<gneiss::node_id> nodes(std::uint32_t worker, const gneiss::batch_key& key);
    [[nodiscard]] gneiss::io_stats io() const;

private:
    struct logical_worker {
        gneiss::worker_batches batches;
        std::vector<gneiss::node_plan> plans{};
        gneiss::epoch_plan rounds{};
        std::uint64_t epoch = 0;
        std::uint32_t next = 0; ///< state to acquire
        std::optional<gneiss::state_work> work{};
    };
    [[nodiscard]] logical_worker& at(std::uint32_t worker);
    /// Returns the worker of a batch, in its state.
    [[nodiscard]] logical_worker& entered(std::uint32_t worker, const gneiss::batch_key& key);
    void enter(logical_worker& of, const gneiss::batch_key& key) const;

    worker_memory memory_;
    gneiss::engine_choice engine_;
    gneiss::bucket_store buckets_;
    gneiss::feature_store store_;
    gneiss::memory_budget budget_;
    gneiss::node_task cutter_;
    std::map<std::uint32_t, std::unique_ptr<logical_worker>> workers_;
};

/// Holds the model for any number of logical replicas, whose parameters are equal.
class compute_actor : public actor {
public:
    compute_actor(const std::filesystem::path& config, std::uint64_t threads);

    /// Continues after step `steps` with these parameters, by the optimizer of an epoch. Throws errc::config_mismatch
    /// for another model's.
    void begin(std::uint64_t epoch, double plateau, std::uint64_t steps, std::span<const float> values,
        std::span<const float> state);
    /// Returns the number of gradients.
    [[nodiscard]] std::size_t gradients() { return replica_->size(); }
    /// Computes a batch of the next step. `rows`: the frame of its group's rows, if any. Writes gradients
    /// [gradients()].
    [[nodiscard]] gneiss::training_statistics differentiate(std::span<const std::byte> frame,
        std::span<const std::byte> rows, const gneiss::batch_key& key, std::span<float> gradients);
    /// Forgets the rows of groups, whose frames are made again, for an empty cache.
    void empty_cache() { replica_->empty_cache(); }
    /// Makes the next step.
    void step(std::span<const std::span<const float>> replicas, const gneiss::batch_key& last);
    /// Returns the number of steps made.
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

    /// Parameters, current between steps.
    struct parameters {
        std::span<const float> values, state;
    };
    [[nodiscard]] parameters current();

private:
    std::unique_ptr<gneiss::armada_replica> replica_;
    std::uint64_t steps_ = 0;
};

} // namespace armada
