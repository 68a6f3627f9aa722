// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/dist/group_sampler.hpp>
#include <gneiss/dist/hop_messages.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/node_attributes.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/train/row_owner.hpp>
#include <gneiss/train/trainers/armada.hpp>
#include <gneiss/train/worker_batches.hpp>

#include "kit/gnn/classifier.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/report/records.hpp"
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

/// Appends the counts of remote construction to those of an epoch.
void add_traffic(programs::named<std::uint64_t>& to, const gneiss::construction_traffic& sent);

/// Returns the files of the inputs' features; without some, those of rows of no column.
[[nodiscard]] gneiss::feature_files files_of(const gneiss::node_features& features, std::uint64_t nodes);

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

/// Makes the batches of logical workers, and answers questions about the partitions that they own. The partitions in
/// memory are a cache: batches and questions may come in any order, those of one worker fastest in that of their
/// numbers. With remote construction, the last two states of a worker stay if there is room, since another worker may
/// still be in the first; questions about a third state, while a batch of the worker is made, open its partitions once
/// more.
///
/// One thread makes batches. Any threads answer questions, which wait for no other process: so a batch may wait for the
/// answers of an actor that waits for those of this one.
class batch_actor : public actor {
public:
    /// \param compute_workers  processes with replicas
    batch_actor(const std::filesystem::path& config, std::uint64_t threads, const worker_memory& memory,
        std::uint32_t compute_workers);

    /// Returns the frames of the group of a batch.
    ///
    /// \param delivery  of the group's rows to a compute worker's cache; null: there is none
    /// \param ask       for remote construction: the way to owners; none: this actor answers for all of them
    [[nodiscard]] std::shared_ptr<const gneiss::group_frames> make(std::uint32_t worker, const gneiss::batch_key& key,
        const gneiss::row_delivery* delivery = nullptr, const gneiss::ask_owners& ask = {});
    /// Returns the distinct input nodes of the group of a batch, which is sampled for that.
    [[nodiscard]] std::vector<gneiss::node_id> nodes(
        std::uint32_t worker, const gneiss::batch_key& key, const gneiss::ask_owners& ask = {});
    /// Returns the answer to a question for a logical worker, in `arena`: a pure function of the question, in which
    /// nothing is believed. By any thread. Errors: those of `worker_batches::answer`; errc::out_of_range for a worker
    /// or a state that is not there.
    [[nodiscard]] std::span<const std::byte> answer(
        std::uint32_t owner, std::span<const std::byte> question, gneiss::mini_batch_arena& arena);
    /// Returns the messages of the batches that were made. By any thread, as the next.
    [[nodiscard]] gneiss::construction_traffic traffic() const;
    [[nodiscard]] gneiss::io_stats io() const;

private:
    /// State of a worker in memory.
    struct resident_state {
        std::uint32_t number = 0;
        gneiss::state_work work{};
    };
    /// Partitions of a worker in memory.
    struct opened_worker {
        gneiss::worker_batches batches;
        gneiss::epoch_plan rounds{}, graph{}, features{}; ///< the last two with remote construction: as it holds them
        std::optional<std::uint64_t> epoch{};
        std::uint32_t next = 0;                ///< state to acquire
        std::vector<resident_state> states{};  ///< ascending
        std::optional<std::uint32_t> making{}; ///< state of the batch that is being made
    };
    struct logical_worker {
        std::mutex mutex; ///< of the rest; held while partitions are read
        std::vector<std::unique_ptr<opened_worker>> opened{};
    };
    class used_state;
    [[nodiscard]] logical_worker& at(std::uint32_t worker);
    [[nodiscard]] std::unique_ptr<opened_worker> open(std::uint32_t worker);
    /// Returns the partitions of a worker that have a batch's state, or are best moved to it.
    [[nodiscard]] opened_worker& choose(logical_worker& of, std::uint32_t worker, const gneiss::batch_key& key);
    void load(opened_worker& of, std::uint32_t worker, const gneiss::batch_key& key) const;
    /// True if the state before `state` has room beside it.
    [[nodiscard]] bool fits_beside_last(const opened_worker& of, std::uint32_t state) const;
    /// Returns a batch's state. Precondition: it is loaded.
    [[nodiscard]] static const resident_state& state_of(const opened_worker& in, const gneiss::batch_key& key);
    /// Returns the state of a batch that is made. Sets the way to owners.
    [[nodiscard]] used_state begin_batch(
        std::uint32_t worker, const gneiss::batch_key& key, const gneiss::ask_owners& ask);
    [[nodiscard]] std::vector<gneiss::owner_message> ask(std::span<const gneiss::owner_message> questions);
    [[nodiscard]] bool remote() const { return flags_.construction() == gneiss::construction::remote; }
    /// Calls `visit` with each `worker_batches`.
    template <class Visit>
    void for_each_opened(const Visit& visit) const;

    std::uint64_t run_;
    worker_memory memory_;
    gneiss::engine_choice engine_;
    gneiss::bucket_store buckets_;
    gneiss::feature_store store_;
    gneiss::memory_budget budget_;
    gneiss::node_task cutter_;
    std::vector<std::unique_ptr<logical_worker>> workers_; ///< by number
    const gneiss::ask_owners* asking_ = nullptr;           ///< of the batch that is made
};

/// Learned rows that an owner answers with, and what keeps them.
struct learned_rows {
    gneiss::matrix_view<const float> rows;
    gneiss::lease owner{};
};
/// A way to the owners of learned rows: the places among the rows of each owner [owners] to these rows.
using ask_rows = std::function<std::vector<learned_rows>(std::span<const std::vector<std::uint32_t>> places)>;

/// Holds the model for any number of logical replicas, whose parameters are equal. Learned rows are those of owners.
class compute_actor : public actor {
public:
    /// \param owners  processes that own learned rows; 0: none are learned
    compute_actor(const std::filesystem::path& config, std::uint64_t threads, std::uint32_t owners);

    /// Continues after step `steps` with these parameters, by the optimizer of an epoch. Throws errc::config_mismatch
    /// for another model's.
    void begin(std::uint64_t epoch, double plateau, std::uint64_t steps, std::span<const float> values,
        std::span<const float> state);
    /// Returns the number of gradients.
    [[nodiscard]] std::size_t gradients() { return replica_->size(); }
    /// Computes a batch of the next step. `rows`: the frame of its group's rows, if any. Writes gradients
    /// [gradients()]. `ask`: the way to learned rows, if there are some.
    [[nodiscard]] gneiss::training_statistics differentiate(std::span<const std::byte> frame,
        std::span<const std::byte> rows, const gneiss::batch_key& key, std::span<float> gradients,
        const ask_rows& ask = {});
    /// Gradients of the learned rows of an owner.
    struct owned_gradients {
        std::vector<std::uint32_t> places;
        std::vector<float> gradients; ///< [places, columns]
    };
    /// Returns those of the batch that was computed last [owners].
    [[nodiscard]] std::vector<owned_gradients> row_gradients() const;
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
    std::optional<gneiss::row_owners> owners_; ///< none: no rows are learned
    std::uint64_t steps_ = 0;
};

/// Owns learned rows of some partitions, with the state of their optimizer: `row_owner`, by the run's flags.
class owner_actor : public actor {
public:
    owner_actor(const std::filesystem::path& config, std::uint64_t threads, std::uint32_t owner, std::uint32_t owners);

    /// Continues after step `steps` with these rows, by the optimizer of an epoch.
    void begin(std::uint64_t generation, std::uint64_t epoch, double plateau, std::uint64_t steps,
        std::span<const float> rows);
    [[nodiscard]] gneiss::row_owner& rows() noexcept { return rows_; }
    /// Returns the values of a row.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }

private:
    std::size_t columns_;
    gneiss::row_owner rows_;
};

} // namespace armada
