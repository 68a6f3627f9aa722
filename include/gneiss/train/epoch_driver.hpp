// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/train/driven_batch.hpp>
#include <gneiss/train/training_pipeline.hpp>

namespace gneiss {

/// Result of an epoch, or of the rest of one.
template <class Statistics>
struct epoch_result {
    Statistics model;           ///< sums over the batches
    std::uint64_t batches = 0;  ///< number of batches
    resume_position position{}; ///< position to resume at
    bool stopped = false;       ///< a stop was requested: `position` is inside the epoch
};

/// Optional callbacks of a training loop.
template <class Statistics>
struct epoch_observer {
    /// Called after each batch is applied, in order, on the update stage's thread: keep it short.
    std::function<void(const batch_key&, const Statistics&)> on_batch{};
    /// Returns true if a checkpoint is due; called between batches on the driving thread. Needs `checkpoint`.
    std::function<bool()> checkpoint_due{};
    /// Makes a checkpoint. Exactly the batches before `position` are applied and written.
    std::function<void(const resume_position&)> checkpoint{};
    /// Returns true to pass over the batches of state `state` once more, with new samples. Called after each pass, on
    /// the driving thread, with the number of passes and whether the next state is ready. Empty: one pass per state.
    std::function<bool(std::uint32_t state, std::uint32_t passes, bool next_is_ready)> again{};
};

/// Returns the number of batches in memory at once: `wanted` or, if that is 0, the number that the stages can use.
[[nodiscard]] inline std::size_t batches_in_flight(const pipeline_options& options, std::size_t wanted) noexcept {
    if (options.deterministic) return static_cast<std::size_t>(options.staleness) + 2;
    if (wanted != 0) return wanted;
    const std::uint64_t useful = options.sample_workers + 5; // one per stage, some between
    return static_cast<std::size_t>(std::min(options.staleness + 2, useful));
}

/// Batches of a state that share a step.
struct step_group {
    std::uint32_t batches = 1;           ///< consecutive batches, at least 1; the last group of a state may have fewer
    std::optional<std::uint32_t> only{}; ///< drives this batch of each group alone; none: all
};

/// Drives the batches of a plan through a training pipeline: states in order, leases of their rows, checkpoints,
/// stopping and resuming. The trainer defines the batch and its stages; `train_loop` is one.
///
///     epoch_driver<my_batch, partition_buffer> driver(stages, {.staleness = 2}, std::move(batches), &rows);
///     driver.run(plan, epoch, {}, {}, {}, [&] { edges.begin_epoch(plan); },
///         [&](std::uint32_t state) { return std::make_shared<my_work>(edges.acquire(state)); });
///
/// examples/25_own_pipeline.cpp is complete.
///
/// `Tables` holds learned rows: `begin_epoch`, `acquire`, `end_epoch` and `commit_wanted` as in `partition_buffer`. The
/// token of `acquire` stops when a stage fails.
/// Thread-safety: one driving thread. Errors: see `run`.
///
/// From examples/25_own_pipeline.cpp:
/// \snippet 25_own_pipeline.cpp driver
template <class Batch, class Tables>
class epoch_driver {
public:
    using statistics_type = typename Batch::statistics_type; ///< statistics of a batch
    using work_type = typename Batch::work_type;             ///< data that the batches of a state share
    using observer = epoch_observer<statistics_type>;        ///< callbacks of an epoch
    using result = epoch_result<statistics_type>;            ///< result of an epoch

    /// \param rows              source of the leases that batches hold; outlives this; null: none
    /// \param group  batches that share a step. Each group is a step of every driver: where the last group of a state
    /// lacks the driver's batch, one that is `absent` takes its place
    epoch_driver(pipeline_stages<Batch> stages, const pipeline_options& options,
        std::vector<std::unique_ptr<Batch>> batches, Tables* rows, step_group group = {})
        : options_(options),
          rows_(rows),
          group_(group),
          track_(open_track(options.trace, "loop")),
          pipeline_(with_end(std::move(stages)), options, numbered(std::move(batches))) {}

    /// Runs epoch `from.epoch` over `states`, from batch `from.next` on, and counts steps from `from.steps` on.
    ///
    /// \param begin    begin() starts the sources of an epoch other than rows
    /// \param work_of  work_of(s) returns the data that the batches of state s share, a shared_ptr<const Work>
    /// \param ready    ready(s) returns true if work_of(s) would not wait; used for `observer::again`
    ///
    /// Stops early, with all submitted batches applied, when `stop` is requested. Partitions are written and released
    /// at the end.
    /// Throws errc::invalid_argument for an observer with `checkpoint_due` and no `checkpoint`, before anything runs;
    /// errc::no_space if `Tables` needs a checkpoint and the observer makes none; errors of stages, `begin`, `work_of`
    /// and `Tables`. After any but the first no stage is running, and every later call rethrows it.
    template <class Begin, class WorkOf>
    result run(const epoch_plan& states, const resume_position& from, const observer& callbacks,
        const std::stop_token& stop, Begin&& begin, WorkOf&& work_of,
        const std::function<bool(std::uint32_t)>& ready = {}) {
        if (failure_) std::rethrow_exception(failure_);
        if (callbacks.checkpoint_due && !callbacks.checkpoint)
            throw error(errc::invalid_argument, "the observer has checkpoint_due, and no checkpoint to make then");
        try {
            const trace_span whole(trace(), "epoch", {.epoch = from.epoch});
            observer_ = &callbacks;
            outcome_ = {};
            applied_ = 0;
            steps_ = from.steps;
            begin();
            if (rows_ != nullptr) rows_->begin_epoch(states, from.next.state);
            return run_states(states, from.epoch, from.next, stop, work_of, ready);
        } catch (...) { // the objects that the stages use go out of scope
            failure_ = std::current_exception();
            pipeline_.stop(failure_);
            throw;
        }
    }

    /// Runs epoch `epoch` from batch `from` on, after the steps so far: for a run that is not resumed.
    template <class Begin, class WorkOf>
    result run(const epoch_plan& states, std::uint64_t epoch, batch_number from, const observer& callbacks,
        const std::stop_token& stop, Begin&& begin, WorkOf&& work_of,
        const std::function<bool(std::uint32_t)>& ready = {}) {
        return run(states, {epoch, from, steps_}, callbacks, stop, std::forward<Begin>(begin),
            std::forward<WorkOf>(work_of), ready);
    }

    /// Steps so far: t of the optimizers.
    [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

    /// Calls `visit` with each batch: all of them, while no epoch is running.
    template <class Visit>
    void for_each_idle(Visit&& visit) {
        pipeline_.for_each_idle(visit);
    }

    [[nodiscard]] pipeline_statistics statistics() const { return pipeline_.statistics(); }
    /// Returns the driving thread's track; null without a trace.
    [[nodiscard]] trace_track* trace() const noexcept { return track_.get(); }
    /// As in `training_pipeline`.
    [[nodiscard]] std::stop_token failed() const noexcept { return pipeline_.failed(); }

private:
    template <class WorkOf>
    result run_states(const epoch_plan& states, std::uint64_t epoch, batch_number from, const std::stop_token& stop,
        WorkOf& work_of, const std::function<bool(std::uint32_t)>& ready) {
        result created;
        created.position = {epoch + 1, {}};
        pipeline_.resume(); // the first state is waited for like the others
        for (std::uint32_t s = from.state; s < states.size() && !created.stopped; ++s) {
            std::uint32_t pass = s == from.state ? from.pass : 0;
            const auto resume_here = [&](std::uint64_t index) {
                return resume_position{epoch, {s, pass, index}, steps_};
            };
            std::uint64_t first = s == from.state ? from.index : 0;
            decltype(Batch::rows) held{};
            if (!acquire_rows(s, held, resume_here(first), stop)) {
                created.stopped = true;
                created.position = resume_here(first);
                break;
            }
            const std::shared_ptr<const work_type> work =
                work_of(s); // a stop waits for it: less than a state's training
            if (options_.drains_states) drain();
            const std::uint64_t count = work->size(), stride = group_.only ? group_.batches : 1;
            bool begins = true;
            for (;; ++pass, first = 0) {
                for (std::uint64_t i = first; i < count; i += stride) {
                    if (interruptible(i)) {
                        created.stopped = stop.stop_requested();
                        if (created.stopped || (observer_->checkpoint_due && observer_->checkpoint_due())) {
                            drain();
                            if (created.stopped) {
                                created.position = resume_here(i);
                                break;
                            }
                            const trace_span span(trace(), "checkpoint", {.epoch = epoch});
                            observer_->checkpoint(resume_here(i));
                        }
                    }
                    const std::uint64_t index = i + group_.only.value_or(0);
                    auto b = take({.epoch = epoch, .state = s, .pass = pass, .batch = index});
                    b->key = {epoch, {s, pass, index}};
                    b->absent = index >= count;
                    b->work = work;
                    b->rows = held;
                    b->step = steps_ + 1;
                    b->ends_step = group_.only || i + 1 == count || (i + 1) % group_.batches == 0;
                    if (b->ends_step) ++steps_;
                    const std::uint64_t driven = i / stride;
                    pipeline_.submit(std::move(b), segment_end(driven, ceil_div(count, stride)) - 1 - driven,
                        std::exchange(begins, false));
                }
                if (created.stopped || count == 0 || !observer_->again ||
                    !observer_->again(s, pass + 1, !ready || ready(s + 1)))
                    break;
            }
        }
        drain();
        created.position.steps = steps_;
        if (rows_ != nullptr) end_epoch(created.position);
        created.model = outcome_;
        created.batches = applied_;
        return created;
    }

    [[nodiscard]] static std::vector<std::unique_ptr<Batch>> numbered(std::vector<std::unique_ptr<Batch>> batches) {
        for (std::size_t i = 0; i < batches.size(); ++i) batches[i]->slot = i;
        return batches;
    }

    /// Adds the bookkeeping after every update.
    [[nodiscard]] pipeline_stages<Batch> with_end(pipeline_stages<Batch> stages) {
        stages.update = [this, update = std::move(stages.update)](Batch& b) {
            update(b);
            outcome_ += b.statistics;
            if (!b.absent) ++applied_;
            b.work.reset();
            b.rows.reset();
            if (observer_->on_batch && !b.absent) observer_->on_batch(b.key, b.statistics);
        };
        return stages;
    }

    [[nodiscard]] std::unique_ptr<Batch> take(const trace_arguments& next) {
        if (track_ == nullptr) return pipeline_.take();
        const auto since = trace_track::clock::now();
        auto taken = pipeline_.take();
        track_->add_wait("wait for a free batch", since, next);
        return taken;
    }
    void drain() {
        const trace_span span(trace(), "wait for update of all");
        pipeline_.drain();
    }

    /// Acquires the rows of a state; commits first if the disk needs it. Returns false if stopped.
    bool acquire_rows(
        std::uint32_t s, decltype(Batch::rows)& held, const resume_position& here, const std::stop_token& stop) {
        for (;;) {
            if (stop.stop_requested()) return false;
            if (rows_ == nullptr) return true;
            auto rows = [&] {
                const trace_span span(trace(), "wait for partitions", {.epoch = here.epoch, .state = s});
                try {
                    return rows_->acquire(s, pipeline_.failed());
                } catch (...) {
                    if (pipeline_.failed().stop_requested())
                        drain(); // throws the error of the stage, which ended the wait
                    throw;
                }
            }();
            if (rows) {
                held = std::move(*rows);
                return true;
            }
            drain();
            commit(here);
        }
    }
    void end_epoch(const resume_position& here) {
        const trace_span span(trace(), "wait for writes of partitions", {.epoch = here.epoch});
        rows_->end_epoch();
        while (rows_->commit_wanted()) {
            commit(here);
            rows_->end_epoch();
        }
    }
    void commit(const resume_position& here) const {
        if (!observer_->checkpoint)
            throw error(errc::no_space, "the row file has too few spare slots to train without checkpoints");
        const trace_span span(trace(), "checkpoint", {.epoch = here.epoch});
        observer_->checkpoint(here);
    }

    /// With a deterministic staleness the window is cut every `segment` batches, so that a checkpoint there changes
    /// nothing.
    static constexpr std::uint64_t segment = 256;
    [[nodiscard]] bool fixed_window() const noexcept { return options_.deterministic && options_.staleness > 0; }
    [[nodiscard]] bool interruptible(std::uint64_t index) const noexcept {
        const std::uint64_t driven = group_.only ? index / group_.batches : index;
        return index % group_.batches == 0 && (!fixed_window() || driven % segment == 0);
    }
    [[nodiscard]] std::uint64_t segment_end(std::uint64_t index, std::uint64_t count) const noexcept {
        return fixed_window() ? std::min(count, (index / segment + 1) * segment) : count;
    }

    pipeline_options options_;
    Tables* rows_;
    step_group group_;
    std::uint64_t steps_ = 0;
    const observer* observer_ = nullptr; // set while an epoch runs
    statistics_type outcome_{};          // written by the update stage, read after a drain
    std::uint64_t applied_ = 0;          // the same
    std::exception_ptr failure_;         // ended an epoch
    std::unique_ptr<trace_track> track_; // the driving thread's

    training_pipeline<Batch> pipeline_; // last: its threads use the rest
};

} // namespace gneiss
