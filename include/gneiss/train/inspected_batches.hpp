// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/seed_set.hpp>
#include <gneiss/superbatch/superbatch_inspector.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss {

/// Batches whose samples can be drawn ahead of training, and stored: those of one state, in a graph that is the same in
/// every epoch.
///
/// Meaning: `of_epoch(work, epoch, i)` returns the work of state i in another epoch, without holding the state.
/// `cutter()` makes an object with `cut(batch)`, one per thread, which writes all of a batch of batch.work but its
/// sample, and returns its seeds: a pure function of batch.key and the work. `sampler()` returns a sampler whose
/// samples of those seeds are those of `produce`. Cost: `of_epoch` O(examples); `cut` O(batch), in memory that the
/// cutter and the batch reuse; `cutter` and `sampler` once per run and epoch. Thread-safety: `of_epoch` and `cut` are
/// called by the thread that draws ahead, while others use the producer. Errors: as in `batch_producer`.
template <class B>
concept inspectable_batches = batch_producer<B> &&
    requires(const B& c, const state_work& work, std::uint64_t epoch, std::uint32_t i, training_batch& batch) {
        { c.of_epoch(work, epoch, i) } -> std::same_as<state_work>;
        { c.cutter().cut(batch) } -> std::same_as<seed_set>;
        { c.sampler() } -> std::same_as<any_sampler>;
    };

/// Surroundings of `inspected_batches`; what they refer to outlives the batches.
struct inspection_parts {
    std::uint64_t nodes = 0; ///< nodes of the graph, for `superbatch_options::direct_table`
    /// `alternate`: caches take turns in memory, as in `superbatch_inspector`
    std::function<void()> before_sampling{}, before_gathering{};
    superbatch_sampler* ahead = nullptr; ///< as in `superbatch_inspector`
};

/// Says what is missing: other batches than those below.
template <class Batches>
class inspected_batches {
    static_assert(inspectable_batches<Batches>,
        "inspected_batches: Batches must be gneiss::inspectable_batches, see gneiss/train/inspected_batches.hpp");

public:
    /// Takes whatever batches are drawn with.
    template <class... Arguments>
    explicit inspected_batches(Batches& /*from*/, const Arguments&... /*arguments*/) {}
};

/// Batches of another producer, drawn ahead in superbatches by an inspector, or on demand.
///
///     graph_in_memory whole(graph);
///     sampled_batches drawn(task, whole, [&] { return neighbor_sampler<>(options, seed); }, executor);
///     inspected_batches batches(drawn, {.directory = "run", .epochs = 10}, executor);
///
/// Batches, and so losses and weights, equal those of `Batches` bit for bit, for any schedule. With superbatches
/// `produce` cuts the batch again, a pure function of its key, and reads the sample that the inspector wrote;
/// batch.window is the batch's superbatch. A stop or an error does not wait for a superbatch in progress: the inspector
/// is halted, and the few batches in flight are produced individually. Caches that take turns then stay in the gather
/// turn, as the last superbatch left them or empty.
/// Memory: with superbatches, one batch without its rows and the work of an epoch more than `Batches`; charged by the
/// caller, who knows the sizes from a profile.
/// Errors: errc::invalid_argument for a plan of several states, with superbatches.
/// Source: Ginex, VLDB'22, section 3.1 and Figures 7 to 9.
template <inspectable_batches Batches>
class inspected_batches<Batches> {
public:
    /// Nanoseconds of each part of the work.
    struct times {
        std::atomic<std::int64_t> sample{0}, load{0}; ///< time of each part
    };

    /// Precondition: `from` outlives this. Throws, with superbatches, as `superbatch_inspector::check`.
    inspected_batches(
        Batches& from, superbatch_options superbatches, executor_ref executor, const inspection_parts& parts = {})
        : batches_(from),
          options_(std::move(superbatches)),
          parts_(parts),
          executor_(executor) {
        if (ahead()) superbatch_inspector::check(options_);
    }

    void begin_epoch(const epoch_start& start, const std::stop_token& stop) {
        if (ahead()) {
            if (start.states.size() > 1)
                throw error(errc::invalid_argument,
                    "superbatches are of one state, the plan has " + std::to_string(start.states.size()));
            const bool known = start.epoch < options_.epochs; // an inspector ends with the last of these epochs
            const std::pair next{start.epoch, start.from.index};
            if (inspector_ && !(known && !inspector_->halted() && inspector_->position() == next)) end_inspection();
        }
        batches_.begin_epoch(start, stop);
    }
    [[nodiscard]] state_work acquire(const epoch_start& start, std::uint32_t i) {
        state_work work = batches_.acquire(start, i);
        if (ahead() && !inspector_) inspect(work, start);
        return work;
    }
    [[nodiscard]] bool ready(std::uint32_t state) const { return batches_.ready(state); }

    void produce(training_batch& b, const std::stop_token& stop) {
        const auto since = b.trace != nullptr ? trace_track::clock::now() : trace_track::clock::time_point{};
        std::shared_ptr<superbatch> from = inspector_ ? inspector_->next(stop) : nullptr;
        if (b.trace != nullptr) b.trace->add_wait("wait for superbatch", since, b.traced());
        b.window = from; // null with an inspector: it is halted, for the rest of the run
        if (from)
            load(b, *from);
        else
            timed(times_.sample, [&] { batches_.produce(b, stop); });
    }
    void gathered(training_batch& b) {
        if (b.window) inspector_->gathered(static_cast<superbatch&>(*b.window), b.key.number.index); // of `produce`
        batches_.gathered(b);
    }
    [[nodiscard]] bool in_order() const { return ahead() || batches_.in_order(); }
    [[nodiscard]] bool repeats() const { return !ahead() && batches_.repeats(); }
    void enter(phase next) { batches_.enter(next); }

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
    using batch_cutter = decltype(std::declval<const Batches&>().cutter());

    /// Cuts the batches of epochs ahead, on the inspecting thread.
    struct cutting_ahead {
        batch_cutter cutter;
        training_batch batch{};
    };

    template <class Work>
    static void timed(std::atomic<std::int64_t>& to, Work&& work) {
        const auto since = std::chrono::steady_clock::now();
        work();
        to.fetch_add(
            std::chrono::nanoseconds(std::chrono::steady_clock::now() - since).count(), std::memory_order_relaxed);
    }

    /// True with superbatches.
    [[nodiscard]] bool ahead() const noexcept { return options_.schedule != superbatch_schedule::conventional; }

    void load(training_batch& b, superbatch& from) {
        (void)cutter_->cut(b);
        std::optional<mini_batch> stored;
        timed(times_.load, [&] { stored = inspector_->load(from, b.sample_arena); });
        if (stored->key() != b.key)
            throw error(errc::corrupt, "holds the sample of another batch", {.path = options_.directory});
        const drawn_sample sample = sampler_->read(*stored, b.layers, executor_);
        b.nodes = sample.nodes;
        b.statistics.sampled_edges = sample.edges;
        b.coverage.clear();
    }

    void inspect(const state_work& work, const epoch_start& start) {
        cutter_.emplace(batches_.cutter());
        sampler_.emplace(batches_.sampler());
        auto by = std::make_shared<cutting_ahead>(batches_.cutter());
        by->batch.work = std::make_shared<const state_work>(batches_.of_epoch(work, start.epoch, 0));
        auto inspector = std::make_unique<superbatch_inspector>(options_,
            superbatch_inspector::surroundings{.sampler = *sampler_,
                .ahead = parts_.ahead,
                .batches = [this, by, held = start.epoch](
                               std::uint64_t epoch) mutable { return seeds_of(by, std::exchange(held, epoch), epoch); },
                .before_sampling = parts_.before_sampling,
                .before_gathering = parts_.before_gathering,
                .nodes = parts_.nodes,
                .on = executor_},
            superbatch_inspector::place{start.epoch, start.from.index});
        const std::scoped_lock lock(mutex_);
        inspector_ = std::move(inspector);
    }
    /// Returns the seeds of an epoch; `by` holds the work of epoch `held`.
    [[nodiscard]] seed_batches seeds_of(
        const std::shared_ptr<cutting_ahead>& by, std::uint64_t held, std::uint64_t epoch) const {
        if (epoch != held)
            by->batch.work = std::make_shared<const state_work>(batches_.of_epoch(*by->batch.work, epoch, 0));
        return {by->batch.work->batches, [by, epoch](std::uint64_t k) {
                    by->batch.key = {epoch, {0, 0, k}};
                    return by->cutter.cut(by->batch);
                }};
    }
    void end_inspection() {
        const std::scoped_lock lock(mutex_);
        ended_ += inspector_->statistics();
        inspector_.reset();
    }

    Batches& batches_;
    superbatch_options options_;
    inspection_parts parts_;
    executor_ref executor_;
    superbatch_statistics ended_; // from earlier inspectors
    times times_;
    mutable std::mutex mutex_;
    std::optional<batch_cutter> cutter_;              // of the thread that produces
    std::optional<any_sampler> sampler_;              // reads what is stored
    std::unique_ptr<superbatch_inspector> inspector_; // last: its thread uses the rest
};

/// Deduces the batches from the producer.
template <class Batches>
inspected_batches(Batches&, superbatch_options, executor_ref, const inspection_parts& = {})
    -> inspected_batches<Batches>;

} // namespace gneiss
