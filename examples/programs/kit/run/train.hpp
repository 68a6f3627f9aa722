// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>

#include "kit/cli/machine_rates.hpp"
#include "kit/cli/signals.hpp"
#include "kit/report/records.hpp"
#include "kit/run/configuration.hpp"
#include "kit/run/device.hpp"
#include "kit/run/open_run.hpp"
#include "kit/run/plan.hpp"
#include "kit/run/run_events.hpp"
#include "kit/run/run_loop.hpp"
#include "kit/run/run_reporter.hpp"
#include "kit/run/run_result.hpp"
#include "kit/run/terminal_events.hpp"

namespace trainers {

/// Context of a run before planning.
struct run_context {
    std::string program;
    std::shared_ptr<const gneiss::dataset> data;
    std::unique_ptr<compute_device> device; ///< null: the CPU
    gneiss::engine_choice engine;
    run_reporter& live;
    std::stop_token stop;
    clock::time_point began = clock::now();
};
/// Opens dataset, device and I/O engine. Throws usage_error, errc::not_found, errc::unsupported.
[[nodiscard]] run_context begin_context(
    const std::string& program, const run_options& flags, run_reporter& live, const std::stop_token& stop);

/// A run before it is opened: flags are resolved, memory is planned, and all checks have passed. Each trainer has a
/// derived class, constructed from the given flags and a context.
class prepared_run {
public:
    explicit prepared_run(run_context&& context) : context_(std::move(context)) {}
    virtual ~prepared_run() = default;
    prepared_run(const prepared_run&) = delete;
    prepared_run& operator=(const prepared_run&) = delete;

    [[nodiscard]] virtual const run_options& flags() const = 0;
    [[nodiscard]] virtual const programs::command& command() const = 0;
    [[nodiscard]] virtual const training_plan& plan() const = 0;
    /// Returns the buckets of the plan's states.
    [[nodiscard]] virtual const gneiss::bucket_store& buckets() const = 0;
    [[nodiscard]] virtual run_loop_options loop() const = 0;
    /// Returns the expected work of an epoch, but for the reads and writes that the plan has.
    [[nodiscard]] virtual programs::epoch_work work() const = 0;

    /// Sets the flags that name the run.
    virtual void place(const std::filesystem::path& dataset, const std::filesystem::path& out) = 0;
    /// Prepares data that the run needs for itself, such as re-bucketed edges; the plan is exact afterwards.
    virtual void open(const opened_run&) {}
    /// Removes leftovers of a finished run that was killed just before cleaning up.
    virtual void clean(const opened_run&) {}
    /// Adds fields known before training, except machine, dataset, flags and plan.
    virtual void add_to(programs::run_record&) const {}
    /// Starts the run, or resumes it.
    [[nodiscard]] virtual std::unique_ptr<trainer> begin(const opened_run& run) = 0;

    [[nodiscard]] const run_context& context() const noexcept { return context_; }

protected:
    /// Returns the means to draw batches for a plan; none for a device, which is planned by bounds.
    [[nodiscard]] std::optional<batch_drawing> drawing() const {
        if (context_.device) return std::nullopt;
        return batch_drawing{context_.engine.make, context_.stop};
    }

    run_context context_;
};

/// A prepared run of a program whose flags are `Options`.
template <class Options>
class configured_run : public prepared_run {
public:
    using options = Options;

    [[nodiscard]] const Options& flags() const override { return config_.flags; }
    [[nodiscard]] const programs::command& command() const override { return config_.command(); }
    void place(const std::filesystem::path& dataset, const std::filesystem::path& out) override {
        config_.flags.place(dataset, out);
    }

protected:
    /// \param resolved  flags
    configured_run(run_context&& context, Options resolved)
        : prepared_run(std::move(context)),
          config_(context_.program, std::move(resolved)) {}

    configuration<Options> config_;
};

/// Opens the run and trains it to its end or to a stop. Throws as `open_run`, and errors of training.
[[nodiscard]] run_result train(prepared_run& prepared);

/// Trains by `given`, whose flags of display are ignored, and reports to `events`. May be called any number of
/// times in a process, one call after another: it prints nothing, handles no signal, and keeps no state. A stop saves
/// the state, as a signal to the program does; a call with the same flags and `resume` continues it.
///
/// Memory: `memory` limits what the call adds to that of the process. Blocks that it frees go back to the system only
/// after `programs::return_large_blocks`, which sets the process's allocator.
/// Errors: those of the program, as exceptions; what an observer throws.
///
/// \tparam Trainer  a prepared_run, with `options` and `program`
template <class Trainer>
[[nodiscard]] run_result run_trainer(
    const typename Trainer::options& given, run_events events, const std::stop_token& stop) {
    typename Trainer::options flags = given;
    flags.dry_run = false;
    if (!flags.outside) flags.outside = programs::used_memory();
    run_reporter live(std::move(events));
    Trainer prepared(flags, begin_context(Trainer::program, flags, live, stop));
    return train(prepared);
}

/// Prints plan and configuration: --dry-run.
void report_dry_run(const prepared_run& prepared);
/// Prints a run's result and its directory.
[[nodiscard]] programs::exit_code report_result(
    const run_result& result, const run_options& flags, programs::progress& line);

/// Adds the command `train` to a program.
template <class Trainer>
void add_train(programs::command_line& to, std::string description) {
    const auto target = std::make_shared<typename Trainer::options>(); // of command-line parsing
    programs::command& command = to.add("train", std::move(description), [target](programs::command&) {
        typename Trainer::options& flags = *target;
        flags.outside = programs::memory_use{};
        const programs::interrupt_guard interrupts;
        programs::progress line(flags.quiet);
        if (flags.dry_run) {
            run_reporter live(terminal_events(line));
            report_dry_run(Trainer(flags, begin_context(Trainer::program, flags, live, interrupts.token())));
            return programs::exit_code::done;
        }
        const run_result result = run_trainer<Trainer>(flags, terminal_events(line), interrupts.token());
        line.clear();
        return report_result(result, flags, line);
    });
    command.judges_memory();
    target->add_to(command);
}

} // namespace trainers
