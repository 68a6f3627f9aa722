// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/model/schedule.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/training_pipeline.hpp>

#include "kit/report/best_state.hpp"
#include "kit/report/records.hpp"
#include "kit/report/report.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/device.hpp"
#include "kit/run/open_run.hpp"
#include "kit/run/options.hpp"
#include "kit/run/plan.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

using clock = std::chrono::steady_clock;

[[nodiscard]] double seconds_since(clock::time_point since);

/// Progress of an interrupted epoch, kept in the checkpoint so that its record is complete after a resume.
struct epoch_so_far {
    double seconds = 0, loss = 0;
    std::uint64_t examples = 0, sampled_edges = 0, read_bytes = 0, write_bytes = 0, read_requests = 0;
    double wait_seconds = 0;
    std::uint64_t cache_lookups = 0, cache_hits = 0;
    programs::named<double> stage_seconds{};
    programs::named<std::uint64_t> moved{};
    std::uint64_t first_examples = 0; ///< examples of first passes over states
    std::uint64_t correct = 0;        ///< classified nodes

    [[nodiscard]] nlohmann::ordered_json to_json() const;
    static epoch_so_far from_json(const nlohmann::ordered_json& j);
};

/// Lookups and hits of a row cache.
struct cache_counts {
    std::uint64_t lookups = 0, hits = 0;
};

/// Statistics of a batch.
struct batch_outcome {
    double loss = 0; ///< sum over the examples
    std::uint64_t examples = 0;
    std::uint64_t sampled_edges = 0; ///< 0: the trainer samples none
    std::uint64_t correct = 0;       ///< nodes that the model classified correctly before their update
};

/// Callbacks from a trainer during an epoch. The members are those of gneiss::training_observer.
struct run_observer {
    std::function<void(const gneiss::batch_key&, const batch_outcome&)> on_batch;
    std::function<bool()> checkpoint_due;
    std::function<void(const gneiss::resume_position&)> checkpoint;
};

/// End of an epoch, or of its trained part.
struct epoch_end {
    gneiss::resume_position position{};
    bool stopped = false;
};

/// Interface of a trainer (Marius, MariusGNN, …) to the run loop.
class trainer {
public:
    virtual ~trainer() = default;
    /// Trains epoch `from.epoch` from batch `from.next` on, after `from.steps` steps.
    virtual epoch_end train(
        const gneiss::resume_position& from, const run_observer& observer, const std::stop_token& stop) = 0;
    /// Writes a checkpoint. Everything before `at` is applied.
    virtual void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) = 0;
    /// Returns metrics of a split ("valid", "test"); empty if the split is empty. Throws errc::canceled on a stop.
    virtual programs::metric_values evaluate(const std::string& split) = 0;
    /// Returns metrics by class of the last evaluation of a split, as in `run_record`; null: there are none.
    [[nodiscard]] virtual nlohmann::ordered_json per_class(const std::string& /*split*/) const { return nullptr; }
    /// As evaluate("valid"), perhaps of fewer edges: for validations before the last.
    virtual programs::metric_values validate() { return evaluate("valid"); }
    /// Keeps the current state as the best so far, in `RUN/best`, with its metrics.
    virtual void keep_best(const programs::best_metrics& metrics) = 0;
    /// As `evaluate`, for the state in `RUN/best`, once training is over: frees the memory of training, and no other
    /// function is called after it. Only for states that were kept without a test.
    virtual programs::metric_values evaluate_best(const std::string& split) = 0;
    /// True if `evaluate` computes all splits at once: a state is then tested when it is kept.
    [[nodiscard]] virtual bool evaluates_all_splits() const { return false; }

    /// Loads data that stays in memory, before the first epoch is timed.
    virtual void warm_up() {}

    /// Returns the budget that the parts of the run are charged to.
    [[nodiscard]] virtual const gneiss::memory_budget& budget() const = 0;
    /// Returns the optimizer's steps before the first epoch: those that --warm-start continues, else 0.
    [[nodiscard]] virtual std::uint64_t first_steps() const = 0;
    [[nodiscard]] virtual gneiss::pipeline_statistics pipeline() const = 0;
    [[nodiscard]] virtual gneiss::staleness_histogram row_staleness() const = 0;
    [[nodiscard]] virtual gneiss::io_stats io() const = 0;
    /// Returns busy seconds of each stage so far, always the same stages: by default those of the pipeline.
    [[nodiscard]] virtual programs::named<double> stage_seconds() const;
    /// Returns busy seconds of a GPU, reported as the stage "device"; 0 without one.
    [[nodiscard]] virtual double device_seconds() const { return 0; }
    /// Returns bytes moved so far by their purpose, always the same purposes: keys of an epoch's record.
    [[nodiscard]] virtual programs::named<std::uint64_t> moved() const { return {}; }
    /// Returns further fields of the live line, with two blanks between them.
    [[nodiscard]] virtual std::string live_fields() const { return {}; }
    /// Returns counts of the trainer's row cache; 0 without one.
    [[nodiscard]] virtual cache_counts cache() const { return {}; }
    /// Returns the passes over each state of a trained epoch; empty unless a trainer makes more than one.
    [[nodiscard]] virtual std::vector<std::uint32_t> passes(std::uint64_t /*epoch*/) const { return {}; }
    /// Returns false if a trained parameter in memory, or its square, is not a finite number, after a step that no
    /// batch and no evaluation followed.
    [[nodiscard]] virtual bool has_finite_parameters() const = 0;
    /// Returns the learning rate of an epoch.
    [[nodiscard]] virtual double learning_rate(std::uint64_t epoch) const = 0;
    /// Sets the factor of learning rates from the next epoch on: --lr-schedule plateau.
    void set_plateau(double factor) noexcept { plateau_ = factor; }
    /// Adds trainer-specific fields to the record of a run, after training.
    virtual void add_to(programs::run_record&) {}

protected:
    /// Returns the factor of learning rates by the validations so far.
    [[nodiscard]] double plateau() const noexcept { return plateau_; }

private:
    double plateau_ = 1;
};

/// Inputs of the run loop in addition to flags.
struct run_loop_options {
    std::string unit;    ///< unit of examples: "edges"
    std::string measure; ///< measure of validations, for display: "MRR"; the first, or that of --early-stop-metric
    std::uint64_t examples = 0; ///< per epoch
    bool validates = true;      ///< true if there is something to evaluate
    bool classifies = false;    ///< examples are classified, and their accuracy in training is recorded
    bool best = false;          ///< the best state by validation is kept, and its metrics are the run's
    std::uint64_t queries = 0;  ///< of a validation before the last: differences within its noise are no warning
    double largest_class = 0;   ///< share of the largest class among the validation nodes; 0: unknown
    std::string validated{};    ///< examples of a validation before the last, in words; empty: all of `evaluate`
    programs::named<std::string> scopes{}; ///< of the splits' metrics, as in `run_record`
    std::string remedy{}; ///< advice for a run whose first validation is worse than its start; empty: the start is not
                          ///< validated
    std::optional<gneiss::plateau_decay> plateau{}; ///< lowers learning rates by validations
    std::string state{}; ///< name of a state for the live line, if passes over it may repeat: "macro-batch"
};

/// The seconds of an activity, the current one included. One thread begins and ends it, others read.
class activity_clock {
public:
    /// Returns the result of `body`, whose time counts.
    template <class Body>
    decltype(auto) measure(Body&& body) {
        const running counted(*this);
        return body();
    }
    [[nodiscard]] double seconds() const {
        const std::scoped_lock lock(mutex_);
        return before_ + (since_ ? seconds_since(*since_) : 0);
    }

private:
    class running {
    public:
        explicit running(activity_clock& of) : of_(of) {
            const std::scoped_lock lock(of_.mutex_);
            of_.since_ = clock::now();
        }
        running(const running&) = delete;
        running& operator=(const running&) = delete;
        ~running() {
            const std::scoped_lock lock(of_.mutex_);
            of_.before_ += seconds_since(*of_.since_);
            of_.since_.reset();
        }

    private:
        activity_clock& of_;
    };

    mutable std::mutex mutex_;
    double before_ = 0;
    std::optional<clock::time_point> since_;
};

/// Position of a run at the start of a process.
struct loop_position {
    gneiss::resume_position next{};
    bool begun = false;                                ///< true if there is a checkpoint
    double seconds = 0;                                ///< spent by earlier processes up to the checkpoint
    std::uint64_t peak_rss_bytes = 0;                  ///< peak of these processes
    epoch_so_far so_far{};                             ///< work of earlier processes in the epoch that contains `next`
    std::optional<programs::kept_state> best{};        ///< the state in `RUN/best`, if the checkpoint has its epoch
    std::optional<programs::epoch_record> unvalidated; ///< the epoch before `next`, if a stop preceded its validation
    programs::metric_values start;                     ///< validation before training, if there was one
    std::vector<std::string> warnings{};               ///< of earlier processes

    /// Returns the position in the checkpoint of `run`, with its best state; the beginning without one. A best state
    /// that the checkpoint does not cover is of another course of the run, and left out. Throws errc::corrupt for
    /// progress of another form; over_budget if a checkpoint exceeds `memory` bytes.
    [[nodiscard]] static loop_position of(const opened_run& run, std::uint64_t memory);
};

/// The run loop, the same for every trainer: trains epochs in sequence, reports them to the observer and in
/// metrics.jsonl, validates, saves checkpoints when due or on a stop, stops early, and writes the results to the run's
/// directory.
class run_loop {
public:
    run_loop(const run_options& options, const run_loop_options& settings, const training_plan& plan,
        const opened_run& run, run_reporter& live, nlohmann::ordered_json configuration)
        : options_(options),
          settings_(settings),
          plan_(plan),
          run_(run.directory),
          trace_(run.trace.get()),
          live_(live),
          configuration_(std::move(configuration)) {}

    /// Trains from `from` to the end or to a stop, evaluates, writes the run's directory, and returns the record for
    /// run.json. `record` has the fields known in advance; `began` is the time at which this process started the run.
    programs::run_record operator()(trainer& of, programs::run_record record, const loop_position& from,
        const std::stop_token& stop, clock::time_point began);

private:
    /// Returns "was 0.01" for --lr 0.01, with the rate of the epoch if it is another.
    [[nodiscard]] std::string rate_text(const char* verb, const trainer& of, std::uint64_t epoch) const;
    /// Throws errc::not_finite "PLACE: WHAT, which was 0.01"; `what` ends with --lr.
    [[noreturn]] void throw_diverged(
        const std::string& place, const std::string& what, const trainer& of, std::uint64_t epoch) const;
    /// Writes a checkpoint of `of` at `at`.
    void save(trainer& of, const gneiss::resume_position& at);
    /// Returns seconds of the run so far, including earlier processes.
    [[nodiscard]] double seconds() const { return seconds_before_ + seconds_since(began_); }
    [[nodiscard]] std::uint64_t peak_rss_bytes() const;
    /// Begins a phase, which the report of the run in progress names.
    void enter(run_phase phase);
    /// Returns the report of `record`. Thread-safe.
    [[nodiscard]] programs::report_data report_of(
        const trainer& of, programs::run_record record, const std::vector<programs::time_sample>& samples) const;
    /// Returns how far the run of `program` is. Thread-safe.
    [[nodiscard]] programs::run_progress progress(const std::string& program) const;
    /// Returns the report of the run in progress, with the epochs that are concluded. Thread-safe.
    [[nodiscard]] programs::report_data live_report(
        const trainer& of, const programs::run_record& record, const std::vector<programs::time_sample>& samples) const;
    /// Returns the cost of evaluations in this process.
    [[nodiscard]] programs::evaluation_record evaluated() const;
    /// Returns the cost of evaluations: of earlier processes, as far as `epochs` have it, and of this one; absent:
    /// none.
    [[nodiscard]] std::optional<programs::evaluation_record> evaluation_of(
        const std::vector<programs::epoch_record>& epochs) const;
    /// Returns the run's timeline: samples of earlier processes, then these.
    [[nodiscard]] std::vector<programs::time_sample> timeline(const std::vector<programs::time_sample>& samples) const;
    /// Returns totals of the current epoch, including earlier processes.
    [[nodiscard]] epoch_so_far totals(const trainer& of) const;
    [[nodiscard]] programs::epoch_record record_of(const trainer& of, std::uint64_t epoch) const;
    /// Returns the progress of the current epoch.
    [[nodiscard]] progress_report progress_of(const trainer& of, const gneiss::batch_key& at) const;
    /// Appends the warnings of the run so far that `to` lacks.
    void add_warnings(std::vector<std::string>& to) const;
    /// Returns a warning if the first validation is worse, by the metric of `order`, than that before training by more
    /// than two standard errors. Their bound is that of values in [0, 1].
    [[nodiscard]] std::vector<std::string> warnings_of(
        const std::vector<programs::epoch_record>& epochs, const programs::metric_order& order) const;

    /// Warns, once, if the validation of an epoch lacks the metric that compares states.
    void warn_of_absent(const programs::epoch_record& epoch, const programs::metric_order& order);

    const run_options& options_;
    run_loop_options settings_;
    const training_plan& plan_;
    const programs::run_directory& run_;
    run_trace* trace_; ///< null without one
    run_reporter& live_;
    nlohmann::ordered_json configuration_;

    clock::time_point began_ = clock::now();
    double seconds_before_ = 0;                         // seconds of earlier processes
    std::uint64_t peak_before_ = 0;                     // the same
    std::vector<std::string> warnings_before_;          // the same
    std::optional<programs::epoch_record> unvalidated_; // an epoch that is trained, but neither validated nor reported
    epoch_so_far so_far_;                               // current epoch, by earlier processes
    std::optional<programs::kept_state> best_;          // in RUN/best
    programs::metric_values start_;                     // validation before training
    gneiss::io_stats io_at_start_;                      // current epoch, in this process
    gneiss::pipeline_statistics pipeline_at_start_;     // the same
    programs::named<double> stages_at_start_;           // the same
    programs::named<std::uint64_t> moved_at_start_;     // the same
    cache_counts cache_at_start_;                       // the same
    device_counts device_at_start_;                     // the same
    clock::time_point epoch_began_ = clock::now();
    std::atomic<double> loss_{0};
    std::atomic<std::uint64_t> examples_{0}, first_examples_{0},
        sampled_edges_{0}; // first: of first passes over states
    std::atomic<std::uint64_t> correct_{0};
    activity_clock evaluating_, saving_;
    std::atomic<std::uint64_t> evaluation_read_{0}, evaluation_written_{0}; // bytes from and to devices
    std::vector<programs::time_sample> samples_before_;                     // of earlier processes
    std::uint64_t resumed_after_ = 0; // the last epoch that earlier processes concluded

    mutable std::mutex live_mutex_; // guards the members below, which the report of the run in progress reads
    std::vector<programs::epoch_record> done_; // concluded epochs
    programs::run_progress progress_;
    std::uint64_t first_before_ = 0;              // examples of first passes by earlier processes in the current epoch
    std::uint64_t examples_before_ = 0;           // and of all passes
    clock::time_point live_began_ = clock::now(); // of the current epoch
    std::size_t states_ = 0;                      // states of the current epoch
    bool absent_reported_ = false;
    clock::time_point saved_at_ = clock::now();
};

} // namespace trainers
