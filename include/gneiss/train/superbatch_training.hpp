// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/cache/any_policy.hpp>
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/sampling/node_batches.hpp>
#include <gneiss/sampling/superbatch_inspector.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/train/compute_stage.hpp>
#include <gneiss/train/cpu_compute.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/graph_batch.hpp>

namespace gneiss {

/// Dense features of nodes as rows of a source, and how a row's bytes become floats.
struct feature_rows {
    any_row_source& source;
    cached_rows<any_row_source>* cache = nullptr; ///< over the source; null: every row is read
    any_cache_policy* policy = nullptr; ///< decides what the cache holds; null: the change sets of superbatches
    std::size_t columns = 0;
    bool f16 = false;     ///< numbers are f16, else f32
    bool normalized = false; ///< rows are scaled by `normalize_row`
};

/// Where features come from: rows of a source, or all of them in memory, dense or sparse.
using feature_input = std::variant<feature_rows, std::shared_ptr<const resident_features>>;

struct superbatch_training_options {
    std::uint64_t batch = 1000; ///< nodes
    sampler_kind sampler = sampler_kind::neighbor;
    std::uint64_t seed = 0;
    std::size_t rows_in_flight = 2; ///< batches whose rows are in memory: the one that is computed, and those gathered ahead
    std::size_t sample_workers = 1;    ///< of `conventional`
    std::uint64_t batch_nodes = 0;     ///< that a sample may have, more is an error; 0: any number
    superbatch_options superbatches{}; ///< their slots are set to those of the cache, if change sets decide what it holds
};

/// What the training of nodes by superbatches works with; all of it outlives the training.
struct superbatch_parts {
    batch_sampler_factory samplers; ///< of the whole graph, made with the options' seed
    feature_input features;
    std::span<const class_id> labels;    ///< of all nodes
    std::vector<node_id> training_nodes; ///< distinct
    cpu_encoder& encode;
    dense_parameters<>& weights;
    graph_compute* by = nullptr; ///< computes batches elsewhere than on the CPU, with the same parameters
    std::function<void()> before_sampling{}, before_gathering{}; ///< `alternate`: caches take turns in memory
};

/// Busy seconds of each stage. `sample` and `change_set` are the inspector's; `switching` is what turns cost: caches that are
/// loaded, filled and given back.
struct superbatch_times {
    double sample = 0, change_set = 0, switching = 0, load = 0, gather = 0, update = 0, compute = 0, wait = 0;
};

/// Trains a GNN for node classification, with the graph and features anywhere: the training of Ginex (VLDB'22).
///
/// An epoch's batches are those of `graph_training` in memory, with the same keys: the same samples, losses and weights,
/// bit for bit, whatever the schedule, cache, source and number of threads.
/// With superbatches the sample stage reads what the inspector wrote, the gather stage fills the cache when a superbatch
/// begins and applies a change set after each batch. Conventionally, batches are sampled there and then.
/// A stop, or an error, does not wait for a superbatch that is being made: the few batches on their way are sampled by
/// themselves.
/// Memory: rows of `rows_in_flight` batches, samples of `in_flight`, and what samplers and encoder keep; charged by the caller,
/// who knows their sizes from a profile.
/// Thread-safety: one driving thread. Source: Ginex, sections 3.1 and 3.3, Figures 7 to 9.
class superbatch_training {
public:
    using epoch = epoch_result<graph_statistics>;
    using observer = epoch_observer<graph_statistics>;

    /// Throws errc::invalid_argument for parts that do not fit together.
    superbatch_training(superbatch_training_options options, superbatch_parts parts, const dense_optimizer& dense, executor_ref executor)
        : options_(std::move(options)), parts_(std::move(parts)), dense_(dense), executor_(executor),
          by_(parts_.by, [&] { return std::make_unique<cpu_node_compute>(parts_.encode, parts_.weights, options_.seed, executor); }),
          driver_(stages(), {.staleness = std::max<std::size_t>(options_.rows_in_flight, 1) - 1, .deterministic = false, .sample_workers = workers(options_), .queues = {}},
              make_batches(), nullptr) {
        const auto need = [](bool holds, const char* what) {
            if (!holds) throw error(errc::invalid_argument, what);
        };
        need(!parts_.training_nodes.empty(), "there is no node to train on");
        need(parts_.encode.inputs().total() == columns(), "the encoder is made for other features");
        const auto* rows = std::get_if<feature_rows>(&parts_.features);
        const bool changes = rows != nullptr && rows->cache != nullptr && rows->policy == nullptr;
        need(!changes || superbatches(), "change sets need superbatches");
        options_.superbatches.cache_capacity = changes ? rows->cache->capacity() : 0;
        by_.prepare(in_flight(options_), nullptr);
    }

    /// Batches that are in memory at once, without rows: those whose rows are, and one for each thread that samples or loads.
    [[nodiscard]] static std::size_t in_flight(const superbatch_training_options& o) noexcept {
        return std::max<std::size_t>(o.rows_in_flight, 1) + workers(o);
    }

    /// Runs epoch `epoch` from batch `from` on; stops early, with everything applied, when `stop` is requested.
    /// Throws errc::over_budget for a sample of more than `batch_nodes`, errc::out_of_range for a label that is no class, and what the
    /// stages and the inspector met. After an exception no stage is at work, and every later call throws it again.
    epoch run(std::uint64_t epoch, batch_number from = {}, const observer& told = {}, const std::stop_token& stop = {}) {
        std::stop_source leave; // a stop, or a failure of another stage: who waits for a superbatch waits no longer
        const auto give_up = [&] { leave.request_stop(); };
        const std::stop_callback stopped(stop, give_up), failed(driver_.failed(), give_up);
        stop_ = leave.get_token();
        const auto lend = [&] { by_->begin(dense_, no_rows_); };
        const observer watched = by_.observed(told, lend);
        const auto begin = [&] {
            lend();
            if (!superbatches()) return;
            if (inspector_ && !behind_ && inspector_->position() == std::pair{epoch, from.index}) return;
            end_inspection();
            behind_ = false;
            inspector_ = std::make_unique<superbatch_inspector>(options_.superbatches,
                superbatch_inspector::surroundings{.samplers = parts_.samplers, .sampling = options_.sampler,
                    .batches = [this](std::uint64_t e) { return batches_of(e); }, .before_sampling = parts_.before_sampling,
                    .before_gathering = parts_.before_gathering, .nodes = parts_.labels.size(), .on = executor_},
                superbatch_inspector::place{epoch, from.index});
        };
        const epoch_plan whole(1);
        const auto done = driver_.run(whole, epoch, from, watched, stop, begin, [&](std::uint32_t) { return batches_of(epoch); });
        by_.give_back();
        return done;
    }

    /// Batches applied before this run: what optimizers call t. Part of the state that a resume restores.
    [[nodiscard]] std::uint64_t steps() const noexcept { return driver_.steps(); }
    void set_steps(std::uint64_t steps) noexcept { driver_.set_steps(steps); }
    /// Steps so from the next epoch on: for schedules. The state floats must be the same.
    void set_optimizer(const dense_optimizer& dense) { dense_ = dense; }

    [[nodiscard]] pipeline_statistics statistics() const { return driver_.statistics(); }
    [[nodiscard]] superbatch_statistics inspected() const {
        const std::scoped_lock lock(mutex_);
        superbatch_statistics sum = ended_;
        if (inspector_) sum += inspector_->statistics();
        return sum;
    }
    [[nodiscard]] superbatch_times times() const {
        const superbatch_statistics ahead = inspected();
        const pipeline_statistics stages = statistics();
        const auto seconds = [](const std::atomic<std::int64_t>& ns) { return static_cast<double>(ns.load(std::memory_order_relaxed)) * 1e-9; };
        constexpr auto compute = static_cast<std::size_t>(stage::compute);
        return {.sample = ahead.sample_seconds + seconds(sample_), .change_set = ahead.change_set_seconds,
            .switching = ahead.switch_seconds + seconds(switch_), .load = seconds(load_), .gather = seconds(gather_),
            .update = seconds(update_), .compute = stages.busy_seconds[compute], .wait = stages.wait_seconds[compute]};
    }

private:
    using clock = std::chrono::steady_clock;
    using counter = std::atomic<std::int64_t>;

    struct batch : driven_batch<graph_statistics, node_batches> {
        mini_batch_arena arena;
        std::vector<node_id> seeds;
        std::vector<class_id> labels;
        layer_stack layers;
        drawn_sample sample;
        std::shared_ptr<superbatch> of; ///< null: it was sampled by itself
        aligned_buffer<float> memory_of_rows; ///< while rows are in it; else with the idle ones
        matrix_view<float> dense; ///< [nodes, dense columns]
        sparse_feature_rows sparse;
    };

    [[nodiscard]] static bool superbatches(const superbatch_training_options& o) noexcept {
        return o.superbatches.schedule != superbatch_schedule::conventional;
    }
    [[nodiscard]] bool superbatches() const noexcept { return superbatches(options_); }
    [[nodiscard]] static std::size_t workers(const superbatch_training_options& o) noexcept {
        return superbatches(o) ? 1 : std::max<std::size_t>(o.sample_workers, 1);
    }
    [[nodiscard]] std::size_t columns() const {
        if (const auto* rows = std::get_if<feature_rows>(&parts_.features)) return rows->columns;
        return static_cast<std::size_t>(std::get<1>(parts_.features)->columns());
    }

    std::vector<std::unique_ptr<batch>> make_batches() const {
        std::vector<std::unique_ptr<batch>> result;
        for (std::size_t i = 0; i < in_flight(options_); ++i) result.push_back(std::make_unique<batch>());
        return result;
    }
    [[nodiscard]] std::shared_ptr<const node_batches> batches_of(std::uint64_t epoch) const {
        return std::make_shared<const node_batches>(parts_.training_nodes, options_.batch, options_.seed, epoch, 0);
    }
    void end_inspection() {
        const std::scoped_lock lock(mutex_);
        if (inspector_) ended_ += inspector_->statistics();
        inspector_.reset();
    }

    pipeline_stages<batch> stages() {
        pipeline_stages<batch> result{.sample = [this](batch& b) { sample(b); },
            .gather = [this](batch& b) { gather(b); },
            .to_device = {},
            .compute = {},
            .to_host = {},
            .update = [this](batch& b) { let_go(b); }};
        by_.put_into(result, [this](batch& b) { return view_of(b); });
        return result;
    }

    template <class Work>
    static void timed(counter& to, Work&& work) {
        const auto since = clock::now();
        work();
        to.fetch_add((clock::now() - since).count(), std::memory_order_relaxed);
    }

    void sample(batch& b) {
        b.statistics = {};
        b.work->choose(b.key.number.index, b.seeds);
        labels_of(b.seeds, parts_.labels, parts_.encode.outputs(), b.labels);
        b.work.reset();
        b.of = inspector_ && !behind_ ? inspector_->next(stop_) : nullptr;
        if (inspector_) behind_ = !b.of; // it stays where this batch is; one worker samples then
        std::optional<mini_batch> result;
        if (b.of) timed(load_, [&] { result = inspector_->load(*b.of, b.arena); });
        else timed(sample_, [&] { result = draw(b); });
        if (result->key() != b.key) throw error(errc::corrupt, "holds the sample of another batch", {.path = options_.superbatches.directory});
        b.sample = drawn_sample::of(options_.sampler, *result, b.layers, executor_);
        b.statistics.sampled_edges = b.sample.edges;
        b.statistics.input_nodes = b.sample.nodes.size();
    }

    mini_batch draw(batch& b) {
        std::optional<mini_batch> result;
        samplers_.with(parts_.samplers, [&](std::unique_ptr<batch_sampler>& mine) { result = mine->sample(b.key, b.seeds, executor_, b.arena); });
        return *result;
    }

    void gather(batch& b) {
        const std::size_t count = b.sample.nodes.size(), dense = parts_.encode.inputs().dense;
        if (options_.batch_nodes != 0 && count > options_.batch_nodes)
            throw error(errc::over_budget, to_string(b.key) + " has " + std::to_string(count) + " nodes, memory is planned for " +
                                               std::to_string(options_.batch_nodes));
        if (auto idle = rows_.take()) b.memory_of_rows = std::move(*idle);
        if (b.memory_of_rows.size() < count * dense) {
            b.memory_of_rows = {};
            b.memory_of_rows = aligned_buffer<float>(std::max<std::size_t>(count + count / 8, options_.batch_nodes) * dense);
        }
        b.dense = {b.memory_of_rows.data(), count, dense};
        if (auto* rows = std::get_if<feature_rows>(&parts_.features)) {
            gather(b, *rows);
        } else {
            timed(gather_, [&] {
                const auto& all = std::get<1>(parts_.features);
                if (all->sparse()) all->gather(executor_, b.sample.nodes, b.sparse);
                else all->gather(executor_, b.sample.nodes, b.dense);
            });
        }
        if (b.of) inspector_->gathered(*b.of, b.key.number.index);
    }

    void gather(batch& b, feature_rows& from) {
        if (from.cache != nullptr) timed(switch_, [&] { fill(b, from); });
        const std::span<const node_id> ids = b.sample.nodes;
        gather_target to = gather_target::of(b.dense);
        if (from.f16) to = {f16_rows_.at_least(ids.size() * from.columns * sizeof(half)), from.columns * sizeof(half)};
        timed(gather_, [&] {
            if (from.cache != nullptr) from.cache->gather(ids, to);
            else from.source.gather(ids, to);
        });
        if (from.cache != nullptr) timed(update_, [&] { update(b, from, to); });
        timed(gather_, [&] {
            if (!from.f16 && !from.normalized) return;
            parallel_for(executor_, ids.size(), 1024, [&](std::size_t i, std::size_t end) {
                for (; i < end; ++i) {
                    if (from.f16)
                        std::ranges::transform(std::span(reinterpret_cast<const half*>(to.row(i)), from.columns), b.dense[i].begin(),
                            [](half h) { return to_float(h); });
                    if (from.normalized) normalize_row(b.dense[i]);
                }
            });
        });
    }

    /// What the cache holds when training, or a superbatch, begins.
    void fill(const batch& b, feature_rows& from) {
        const bool begins = b.of && b.key.number.index == b.of->first();
        if (from.policy != nullptr) {
            const bool emptied = begins && options_.superbatches.schedule == superbatch_schedule::alternate;
            if (!std::exchange(filled_, true) || emptied) from.cache->fill(from.policy->initial());
        } else if (begins) {
            if (b.of->begins_empty() && from.cache->held() != 0) {
                from.cache->release();
                from.cache->acquire();
            }
            from.cache->fill(b.of->fill().in, b.of->fill().out);
        }
    }

    void update(const batch& b, feature_rows& from, const gather_target& rows) {
        if (from.policy != nullptr) from.policy->next(b.sample.nodes, changes_);
        else if (b.of && options_.superbatches.cache_capacity != 0) b.of->changes(b.sample.nodes, changes_);
        else return; // without slots nothing changes; what is sampled after a stop is of no superbatch
        from.cache->apply(changes_, rows);
    }

    [[nodiscard]] computed_batch view_of(batch& b) const {
        computed_batch result{.key = b.key, .step = b.step, .slot = b.slot, .layers = b.layers, .nodes = b.sample.nodes, .labels = b.labels,
            .in = {.dense = b.dense}, .statistics = b.statistics};
        if (const std::size_t columns = parts_.encode.inputs().sparse; columns != 0)
            result.in.sparse = {columns, b.sparse.offsets, b.sparse.columns, b.sparse.values};
        return result;
    }

    void let_go(batch& b) {
        b.of.reset();
        rows_.put(std::move(b.memory_of_rows));
    }

    superbatch_training_options options_;
    superbatch_parts parts_;
    dense_optimizer dense_;
    executor_ref executor_;
    compute_stage<graph_compute> by_;
    any_row_optimizer no_rows_{sgd{}};
    std::stop_token stop_; // of waiting for superbatches, in the epoch that runs
    superbatch_statistics ended_; // of inspectors that are gone
    counter sample_{0}, switch_{0}, load_{0}, gather_{0}, update_{0}; // nanoseconds
    bool behind_ = false; // sample stage: a batch was not taken from the inspector, so that no later one can be
    bool filled_ = false; // gather stage: the policy's rows are in the cache
    change_set changes_; // gather stage
    reusable_buffer<std::byte> f16_rows_; // the same
    mutable std::mutex mutex_;
    object_pool<std::unique_ptr<batch_sampler>> samplers_;
    object_pool<aligned_buffer<float>> rows_;
    std::unique_ptr<superbatch_inspector> inspector_;

    epoch_driver<batch> driver_; // last: its threads use the rest
};

} // namespace gneiss
