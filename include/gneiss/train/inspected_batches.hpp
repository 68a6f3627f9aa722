// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/superbatch/superbatch_inspector.hpp>
#include <gneiss/train/node_targets.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss {

/// Batches of training nodes in a graph in any store, sampled ahead in superbatches by an inspector, or on demand.
///
/// Samples, and so losses and weights, equal those of `sampled_batches` with a `node_task` in memory, bit for bit, for
/// any schedule. With superbatches `produce` reads what the inspector wrote, and batch.window is the batch's
/// superbatch. A stop or an error does not wait for a superbatch in progress: the inspector is halted, and the few
/// batches in flight are sampled individually. Caches that take turns then stay in the gather turn, as the last
/// superbatch left them or empty.
/// Memory: the samplers', charged by the caller, who knows their sizes from a profile.
/// Source: Ginex, VLDB'22, section 3.1 and Figures 7 to 9.
class inspected_batches {
public:
    /// Options of the producer.
    struct options {
        std::uint64_t batch = 1000; ///< nodes
        std::uint64_t seed = 0;
        superbatch_options superbatches{}; ///< options of superbatches
    };
    /// Parts that outlive the batches, or are copied.
    struct parts {
        any_sampler sampler;                 ///< samples the whole graph, made with the options' seed
        std::span<const class_id> labels;    ///< one per node
        std::size_t classes = 0;             ///< upper bound of labels, exclusive
        std::vector<node_id> training_nodes; ///< distinct
        /// `alternate`: caches take turns in memory, as in `superbatch_inspector`
        std::function<void()> before_sampling{}, before_gathering{};
        node_targets targets{};              ///< instead of labels
        superbatch_sampler* ahead = nullptr; ///< as in `superbatch_inspector`
    };
    /// Nanoseconds of each part of the work.
    struct times {
        std::atomic<std::int64_t> sample{0}, load{0}; ///< time of each part
    };

    /// Throws errc::invalid_argument without a training node; with superbatches, as `superbatch_inspector::check`.
    inspected_batches(options settings, parts given, executor_ref executor)
        : options_(std::move(settings)),
          parts_(std::move(given)),
          executor_(executor) {
        if (parts_.training_nodes.empty()) throw error(errc::invalid_argument, "the list of training nodes is empty");
        if (superbatches()) superbatch_inspector::check(options_.superbatches);
    }

    void begin_epoch(const epoch_start& start, const std::stop_token& /*stop*/) {
        if (!superbatches()) return;
        const bool ahead =
            start.epoch < options_.superbatches.epochs; // an inspector ends with the last of these epochs
        if (inspector_ && ahead && !inspector_->halted() &&
            inspector_->position() == std::pair{start.epoch, start.from.index})
            return;
        end_inspection();
        auto inspector = std::make_unique<superbatch_inspector>(options_.superbatches,
            superbatch_inspector::surroundings{.sampler = parts_.sampler,
                .ahead = parts_.ahead,
                .batches = [this](std::uint64_t e) { return batches_of(e); },
                .before_sampling = parts_.before_sampling,
                .before_gathering = parts_.before_gathering,
                .nodes = parts_.targets.columns != 0 ? parts_.targets.nodes : parts_.labels.size(),
                .on = executor_},
            superbatch_inspector::place{start.epoch, start.from.index});
        const std::scoped_lock lock(mutex_);
        inspector_ = std::move(inspector);
    }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t /*state*/) const {
        auto batches = batches_of(start.epoch);
        const std::uint64_t count = batches->size();
        return {.view = std::move(batches), .features = {}, .batches = count};
    }
    [[nodiscard]] static bool ready(std::uint32_t /*state*/) noexcept { return true; }

    void produce(training_batch& b, const std::stop_token& stop) {
        samplers_.with([this] { return parts_.sampler; },
            [&](any_sampler& mine) {
                static_cast<const node_batches*>(b.work->view.get())->choose(b.key.number.index, b.seeds);
                if (parts_.targets.columns != 0)
                    parts_.targets.read_seeds(b);
                else
                    labels_of(b.seeds, parts_.labels, parts_.classes, b.labels);
                const auto since = b.trace != nullptr ? trace_track::clock::now() : trace_track::clock::time_point{};
                std::shared_ptr<superbatch> inspected = inspector_ ? inspector_->next(stop) : nullptr;
                if (b.trace != nullptr) b.trace->add_wait("wait for superbatch", since, b.traced());
                b.window = inspected; // null with an inspector: it is halted, for the rest of the run
                std::optional<mini_batch> result;
                if (inspected)
                    timed(times_.load, [&] { result = inspector_->load(*inspected, b.sample_arena); });
                else
                    timed(times_.sample, [&] { result = mine.sample(b.key, b.seeds, executor_, b.sample_arena); });
                if (result->key() != b.key)
                    throw error(
                        errc::corrupt, "holds the sample of another batch", {.path = options_.superbatches.directory});
                const drawn_sample sample = mine.read(*result, b.layers, executor_);
                b.nodes = sample.nodes;
                b.statistics.sampled_edges = sample.edges;
            });
    }
    void gathered(training_batch& b) {
        if (b.window) inspector_->gathered(static_cast<superbatch&>(*b.window), b.key.number.index); // of `produce`
    }
    [[nodiscard]] bool in_order() const noexcept { return superbatches(); }
    [[nodiscard]] static bool repeats() noexcept { return false; }
    void enter(phase /*next*/) noexcept {}

    /// Returns statistics of the inspector.
    [[nodiscard]] superbatch_statistics inspected() const {
        const std::scoped_lock lock(mutex_);
        superbatch_statistics sum = ended_;
        if (inspector_) sum += inspector_->statistics();
        return sum;
    }
    /// Returns times so far.
    [[nodiscard]] const times& spent() const noexcept { return times_; }

private:
    template <class Work>
    static void timed(std::atomic<std::int64_t>& to, Work&& work) {
        const auto since = std::chrono::steady_clock::now();
        work();
        to.fetch_add(
            std::chrono::nanoseconds(std::chrono::steady_clock::now() - since).count(), std::memory_order_relaxed);
    }

    [[nodiscard]] bool superbatches() const noexcept {
        return options_.superbatches.schedule != superbatch_schedule::conventional;
    }
    [[nodiscard]] std::shared_ptr<const node_batches> batches_of(std::uint64_t epoch) const {
        return std::make_shared<const node_batches>(parts_.training_nodes, options_.batch, options_.seed, epoch, 0);
    }
    void end_inspection() {
        const std::scoped_lock lock(mutex_);
        if (inspector_) ended_ += inspector_->statistics();
        inspector_.reset();
    }

    options options_;
    parts parts_;
    executor_ref executor_;
    superbatch_statistics ended_; // from earlier inspectors
    times times_;
    mutable std::mutex mutex_;
    object_pool<any_sampler> samplers_;
    std::unique_ptr<superbatch_inspector> inspector_; // last: its thread uses the rest
};
static_assert(batch_producer<inspected_batches>);

} // namespace gneiss
