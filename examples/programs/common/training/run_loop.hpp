#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/order/plan.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/training_pipeline.hpp>

#include "common/best_state.hpp"
#include "common/records.hpp"
#include "common/run_directory.hpp"
#include "common/terminal.hpp"
#include "common/training/open_run.hpp"
#include "common/training/options.hpp"
#include "common/training/plan.hpp"

namespace trainers {

using clock = std::chrono::steady_clock;

[[nodiscard]] double seconds_since(clock::time_point since);

/// What an interrupted epoch had done, kept in the checkpoint so that its record is whole after a resume.
struct epoch_so_far {
    double seconds = 0, loss = 0;
    std::uint64_t examples = 0, sampled_edges = 0, read_bytes = 0, write_bytes = 0, read_requests = 0;
    double wait_seconds = 0;
    std::uint64_t cache_lookups = 0, cache_hits = 0;
    programs::named<double> stage_seconds{};
    std::uint64_t first_examples = 0; ///< of first passes over states

    [[nodiscard]] nlohmann::ordered_json to_json() const;
    static epoch_so_far from_json(const nlohmann::ordered_json& j);
};

/// Rows that were asked of a cache, and those that it held.
struct cache_counts {
    std::uint64_t lookups = 0, hits = 0;
};

/// What a batch gave.
struct batch_outcome {
    double loss = 0; ///< sum over the examples
    std::uint64_t examples = 0;
    std::uint64_t sampled_edges = 0; ///< 0: the design samples none
};

/// What a design tells and asks while it trains an epoch. The members are those of gneiss::training_observer.
struct run_observer {
    std::function<void(const gneiss::batch_key&, const batch_outcome&)> on_batch;
    std::function<bool()> checkpoint_due;
    std::function<void(const gneiss::resume_position&)> checkpoint;
};

/// Where an epoch, or what was trained of it, ended.
struct epoch_end {
    gneiss::resume_position position{};
    bool stopped = false;
};

/// What a design (Marius, MariusGNN, …) brings to the course of a run.
class trainer {
public:
    virtual ~trainer() = default;
    /// Trains epoch `from.epoch` from batch `from.next` on.
    virtual epoch_end train(const gneiss::resume_position& from, const run_observer& observer, const std::stop_token& stop) = 0;
    /// Makes a checkpoint. Everything before `at` is applied.
    virtual void save(const gneiss::resume_position& at, const nlohmann::ordered_json& progress) = 0;
    /// Metrics of a split ("valid", "test"); empty when it is. Throws errc::canceled on a stop.
    virtual programs::metric_values evaluate(const std::string& split) = 0;
    /// Keeps the state as it is now as the best so far, in `RUN/best`, with its metrics.
    virtual void keep_best(const programs::best_metrics& metrics) = 0;

    /// Loads what stays in memory, before the first epoch is timed.
    virtual void warm_up() {}

    [[nodiscard]] virtual std::uint64_t steps() const = 0;
    [[nodiscard]] virtual gneiss::pipeline_statistics pipeline() const = 0;
    [[nodiscard]] virtual gneiss::staleness_histogram row_staleness() const = 0;
    [[nodiscard]] virtual gneiss::io_stats io() const = 0;
    /// Busy seconds of each stage so far, always the same stages: those of the pipeline unless a design has others.
    [[nodiscard]] virtual programs::named<double> stage_seconds() const;
    /// Busy seconds of a GPU, told as the stage "device"; none without one.
    [[nodiscard]] virtual double device_seconds() const { return 0; }
    /// Of the design's cache of rows; none unless it has one.
    [[nodiscard]] virtual cache_counts cache() const { return {}; }
    /// Passes made over each state of an epoch that was trained; none unless a design makes more than one.
    [[nodiscard]] virtual std::vector<std::uint32_t> passes(std::uint64_t /*epoch*/) const { return {}; }
    /// Adds to the record of a run what only this trainer reports, when training has ended.
    virtual void add_to(programs::run_record&) {}
};

/// What the course of a run depends on beside flags.
struct run_loop_options {
    std::string unit;    ///< of examples: "edges"
    std::string measure; ///< of validations, for people: "MRR"
    std::uint64_t examples = 0;       ///< of an epoch
    bool validates = true, tests = true; ///< whether there is something to evaluate
    bool best = false;                ///< the best state by validation is kept, and its metrics are the run's
    std::string state{};              ///< what is passed over, maybe more than once, on the live line: "macro-batch"
};

/// Where a run is when a process begins with it.
struct loop_position {
    gneiss::resume_position next{};
    bool begun = false;                   ///< whether there is a checkpoint
    double seconds = 0;                   ///< that other processes took up to the checkpoint
    std::uint64_t peak_rss_bytes = 0;     ///< of these processes
    epoch_so_far so_far{};                ///< what other processes did of the epoch that `next` is in
    programs::best_metrics best;          ///< of the state in `RUN/best`, where there is one
    std::optional<programs::epoch_record> unvalidated; ///< the epoch before `next`, when a stop came before its validation

    /// Of the run that `saved` is a checkpoint of, and `best` the checkpoint of its best state; the beginning without one.
    [[nodiscard]] static loop_position of(const std::optional<gneiss::checkpoint>& saved, const std::filesystem::path& best);
};

/// The course of a run, the same for every design: epochs one after the other, told on a live line and in metrics.jsonl,
/// validated, saved when it is time or when a stop is requested, ended early; and what comes of it in the run's directory.
class run_loop {
public:
    run_loop(const run_options& options, const run_loop_options& settings, const training_plan& plan, const opened_run& run,
        programs::progress& live, nlohmann::ordered_json configuration)
        : options_(options), settings_(settings), plan_(plan), run_(run.directory), trace_(run.trace.get()), live_(live), configuration_(std::move(configuration)) {}

    /// Trains from `from` to the end or to a stop, evaluates, writes what the run's directory holds, and returns run.json's
    /// record. `record` has what is known before; `began` is when this process began with the run.
    programs::run_record operator()(trainer& of, programs::run_record record, const loop_position& from,
        const std::stop_token& stop, clock::time_point began);

private:
    /// Makes a checkpoint of `of` at `at`.
    void save(trainer& of, const gneiss::resume_position& at);
    /// Of the run so far, processes before this one included.
    [[nodiscard]] double seconds() const { return seconds_before_ + seconds_since(began_); }
    [[nodiscard]] std::uint64_t peak_rss_bytes() const;
    /// What the timeline of the run holds: what earlier processes saw, and then these samples.
    [[nodiscard]] std::vector<programs::time_sample> timeline(const std::vector<programs::time_sample>& samples) const;
    /// The current epoch, with what processes before this one did of it.
    [[nodiscard]] epoch_so_far totals(const trainer& of) const;
    [[nodiscard]] programs::epoch_record record_of(const trainer& of, std::uint64_t epoch) const;
    [[nodiscard]] std::string line(const trainer& of, const gneiss::batch_key& at) const;

    const run_options& options_;
    run_loop_options settings_;
    const training_plan& plan_;
    const programs::run_directory& run_;
    run_trace* trace_; ///< null without one
    programs::progress& live_;
    nlohmann::ordered_json configuration_;

    clock::time_point began_ = clock::now();
    double seconds_before_ = 0; // of processes before this one
    std::uint64_t peak_before_ = 0; // the same
    std::optional<programs::epoch_record> unvalidated_; // an epoch that is trained, and neither validated nor told
    epoch_so_far so_far_;                           // of the current epoch before this process
    programs::best_metrics best_;
    gneiss::io_stats io_at_start_;                  // of the current epoch, in this process
    gneiss::pipeline_statistics pipeline_at_start_; // the same
    programs::named<double> stages_at_start_;       // the same
    cache_counts cache_at_start_;                   // the same
    clock::time_point epoch_began_ = clock::now();
    std::atomic<double> loss_{0};
    std::atomic<std::uint64_t> examples_{0}, first_examples_{0}, sampled_edges_{0}; // first: of first passes over states
    std::size_t states_ = 0; // of the current epoch
    clock::time_point saved_at_ = clock::now();
};

} // namespace trainers
