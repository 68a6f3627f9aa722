// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/train/fit.hpp>

namespace gneiss {

namespace detail {

/// Files of a run and its course, as they are after the last checkpoint.
class fit_run {
public:
    fit_run(const trained_state& state, const fit_options& options) : state_(state), options_(options) {
        (void)make_directory(options.directory);
        if (!std::filesystem::exists(path("checkpoint"))) return;
        const std::filesystem::path file = path("checkpoint");
        const checkpoint saved = load_checkpoint(file);
        if (saved.configuration_hash != options.configuration)
            throw error(errc::config_mismatch, "is of a run with another configuration: choose another directory",
                {.path = file});
        state.take(saved, file);
        at = saved.position;
        generation_ = saved.generation;
        const auto section = saved.sections.find("course");
        if (section == saved.sections.end())
            throw error(errc::corrupt, "is missing", {.path = file, .field = "course"});
        byte_reader in(section->second, file);
        const auto number = [&](const char* field) { return in.get<std::uint64_t>(field); };
        const auto real = [&](const char* field) { return std::bit_cast<double>(number(field)); };
        at.steps = number("steps");
        so_far = {.loss = real("loss"),
            .seconds = real("seconds"),
            .queries = number("queries"),
            .examples = number("examples")};
        without_better = number("validations without a better one");
        best_measure = real("best measure");
        if (const std::uint64_t best = number("best epoch"); best != none) course.best = best;
        course.epochs.resize(in.count(words_of_epoch * sizeof(std::uint64_t), "epochs"));
        for (fit_epoch& e : course.epochs) {
            e = {.number = number("epoch"),
                .mean_loss = real("loss"),
                .examples = number("examples"),
                .seconds = real("seconds")};
            const double measure = real("measure");
            if (number("validated") != 0) e.measure = measure;
        }
        in.finish();
        take_newer_best();
    }

    /// Writes a checkpoint of the state, before batch `position`.
    void save(const resume_position& position) {
        at = position;
        checkpoint c = begin();
        c.generation = ++generation_;
        c.position = position;
        state_.put(c);
        byte_writer out;
        const auto real = [&](double value) { out.put(std::bit_cast<std::uint64_t>(value)); };
        out.put(position.steps);
        real(so_far.loss), real(so_far.seconds), out.put(so_far.queries), out.put(so_far.examples);
        out.put(without_better);
        real(best_measure);
        out.put(course.best.value_or(none));
        out.put(std::uint64_t{course.epochs.size()});
        for (const fit_epoch& e : course.epochs) {
            out.put(e.number), real(e.mean_loss), out.put(e.examples), real(e.seconds);
            real(e.measure.value_or(0)), out.put(std::uint64_t{e.measure.has_value()});
        }
        c.sections["course"] = std::move(out.bytes());
        save_checkpoint(path("checkpoint"), c);
        state_.committed();
        const std::string table = course.csv();
        atomic_write_file(path("epochs.csv"), std::as_bytes(std::span(table)));
    }
    /// Keeps the state if its measure is the best. NaN never is.
    void judge(std::uint64_t epoch, double measure) {
        if (course.best == epoch && !(measure > best_measure)) { // kept before the run was interrupted
            without_better = 0;
            return;
        }
        if (std::isnan(measure) || (course.best && !(measure > best_measure))) {
            ++without_better;
            return;
        }
        course.best = epoch;
        best_measure = measure;
        without_better = 0;
        // Rows alternate between two files, so that the checkpoint names whole ones at any time.
        checkpoint c = begin();
        const std::string rows = best_rows() == "best.rows" ? "best-2.rows" : "best.rows";
        state_.put_best(c, path(rows.c_str()));
        if (state_.has_rows()) c.put_text("rows", rows);
        byte_writer out;
        out.put(epoch), out.put(std::bit_cast<std::uint64_t>(measure));
        c.sections[measured] = std::move(out.bytes());
        save_checkpoint(path("best"), c);
    }
    void take_best() const {
        if (course.best && *course.best + 1 != course.epochs.size())
            state_.take_best(load_checkpoint(path("best")), path("best"), path(best_rows().c_str()));
    }
    [[nodiscard]] bool ends_early() const noexcept {
        return options_.patience != 0 && without_better >= options_.patience;
    }

    /// Sums of the trained part of an epoch.
    struct progress {
        double loss = 0, seconds = 0;
        std::uint64_t queries = 0, examples = 0;
    };
    resume_position at{};
    progress so_far{};
    std::uint64_t without_better = 0;
    double best_measure = 0;
    fit_result course;

private:
    /// Takes epoch and measure of a best state that was kept after the last checkpoint.
    void take_newer_best() {
        if (!std::filesystem::exists(path("best"))) return;
        const checkpoint best = load_checkpoint(path("best"));
        const auto section = best.sections.find(measured);
        if (section == best.sections.end()) return; // of an older version
        byte_reader in(section->second, path("best"));
        const auto epoch = in.get<std::uint64_t>("epoch");
        const auto measure = std::bit_cast<double>(in.get<std::uint64_t>("measure"));
        in.finish();
        if (epoch < course.epochs.size()) return;
        course.best = epoch;
        best_measure = measure;
    }

    static constexpr std::uint64_t none = ~std::uint64_t{0};
    static constexpr const char* measured = "epoch and measure";
    static constexpr std::size_t words_of_epoch = 6;

    /// Returns a checkpoint without rows.
    [[nodiscard]] checkpoint begin() const {
        checkpoint c;
        c.configuration_hash = options_.configuration;
        c.partitioning = {.nodes = 0, .partitions = 0};
        return c;
    }
    /// Returns the name of the file of the best rows; empty without a best state.
    [[nodiscard]] std::string best_rows() const {
        if (!std::filesystem::exists(path("best"))) return {};
        return std::string(load_checkpoint(path("best")).text("rows").value_or("best.rows"));
    }
    [[nodiscard]] std::filesystem::path path(const char* name) const { return options_.directory / name; }

    const trained_state& state_;
    const fit_options& options_;
    std::uint64_t generation_ = 0;
};

} // namespace detail

template <class Loop>
fit_result fit(trainer<Loop>& training, const std::function<epoch_plan(std::uint64_t)>& plan_of,
    const trained_state& state, const fit_options& options, const std::function<double()>& validate,
    const training_observer& observer, const std::stop_token& stop) {
    using clock = std::chrono::steady_clock;
    detail::fit_run run(state, options);
    while (run.at.epoch < options.epochs && !run.ends_early()) {
        const std::uint64_t number = run.at.epoch;
        auto since = clock::now(), saved = since;
        const auto count_time = [&] {
            const auto now = clock::now();
            run.so_far.seconds += std::chrono::duration<double>(now - std::exchange(since, now)).count();
            saved = now;
        };
        training_observer watched = observer;
        watched.on_batch = [&](const batch_key& key, const training_statistics& of) {
            run.so_far.loss += of.loss; // batch by batch, so that a resumed epoch has the same sum
            run.so_far.queries += of.query_count;
            run.so_far.examples += of.examples;
            if (observer.on_batch) observer.on_batch(key, of);
        };
        watched.checkpoint_due = [&] {
            return clock::now() - saved >= options.checkpoint_every ||
                (observer.checkpoint_due && observer.checkpoint_due());
        };
        watched.checkpoint = [&](const resume_position& at) {
            count_time();
            run.save(at);
            if (observer.checkpoint) observer.checkpoint(at);
        };
        const training_epoch done = training.run(plan_of(number), run.at, watched, stop);
        count_time();
        if (!done.stopped) {
            const auto& of = std::exchange(run.so_far, {});
            fit_epoch& epoch = run.course.epochs.emplace_back(fit_epoch{
                number, of.queries == 0 ? 0 : of.loss / static_cast<double>(of.queries), of.examples, of.seconds, {}});
            if (validate) {
                epoch.measure = validate();
                run.judge(number, *epoch.measure);
            }
        }
        run.save(done.position);
        if (done.stopped) {
            run.course.stopped = true;
            return run.course;
        }
    }
    run.take_best();
    return run.course;
}

inline std::unique_ptr<embedding_file> open_rows(const std::filesystem::path& directory, const engine_factory& engines,
    const row_partitioning& rows, row_layout layout, const std::function<void(embedding_file&)>& fill) {
    const std::filesystem::path path = directory / "rows", at = directory / "checkpoint";
    (void)make_directory(directory);
    if (!std::filesystem::exists(at)) {
        {
            any_engine engine = engines();
            embedding_file::create(engine, path, rows, layout, rows.partitions);
        }
        auto file = std::make_unique<embedding_file>(engines, path, rows, layout, rows.partitions);
        fill(*file);
        file->commit();
        return file;
    }
    const checkpoint saved = load_checkpoint(at);
    if (saved.layout != layout || saved.partitioning.partitions != rows.partitions)
        throw error(errc::config_mismatch, "has other rows or partitions", {.path = at});
    return open_saved_rows(engines, path, rows, saved);
}

} // namespace gneiss
