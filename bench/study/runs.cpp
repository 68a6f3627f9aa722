// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/process.hpp"
#include "kit/cli/signals.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/plot.hpp"
#include "kit/report/records.hpp"
#include "kit/report/run_directory.hpp"
#include "study.hpp"

namespace study {
namespace {

namespace fs = std::filesystem;
namespace plot = programs::plot;
using nlohmann::ordered_json;

struct runs_flags {
    std::string trainer{}, metric{};
    fs::path dataset{};
    std::vector<std::string> cases{}, vary{};
    std::optional<std::string> with{}, against{};
    std::uint64_t repeat = 1, seeds = 0, parallel = 1;
    bool warm = false, json = false, quiet = false;
    std::optional<fs::path> work{}, out{}, differences{}, log{};
};

/// A case of the comparison.
struct run_case {
    std::string name;
    std::string program;
    programs::arguments flags;
};

programs::arguments words_of(std::string_view text) {
    programs::arguments words;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find_first_of(" \t\n", begin), text.size());
        if (end != begin) words.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

/// Returns the cases of `NAME: FLAGS` and `FLAG VALUE VALUE …`, in the given order.
std::vector<run_case> cases_of(const runs_flags& flags) {
    std::vector<run_case> result;
    for (const std::string& text : flags.cases) {
        const std::size_t colon = text.find(": ");
        if (colon == std::string::npos || colon == 0)
            throw programs::usage_error(fmt::format("--case '{}' is not 'NAME: FLAGS'", text));
        run_case one{text.substr(0, colon), flags.trainer, words_of(std::string_view(text).substr(colon + 1))};
        if (!one.flags.empty() && !one.flags.front().starts_with('-')) {
            one.program = one.flags.front();
            one.flags.erase(one.flags.begin());
        }
        result.push_back(std::move(one));
    }
    if (!flags.vary.empty()) {
        if (!result.empty()) throw programs::usage_error("--case and --vary exclude each other: give one");
        const std::string& flag = flags.vary.front();
        for (std::size_t i = 1; i < flags.vary.size(); ++i)
            result.push_back({flag + " " + flags.vary[i], flags.trainer, {"--" + flag, flags.vary[i]}});
    }
    if (result.empty()) throw programs::usage_error("--case or --vary is needed");
    for (run_case& one : result) {
        if (std::ranges::count(result, one.name, &run_case::name) > 1)
            throw programs::usage_error(fmt::format("two cases are named '{}'", one.name));
        const programs::arguments all = words_of(flags.with.value_or(""));
        one.flags.insert(one.flags.begin(), all.begin(), all.end());
    }
    if (flags.against && std::ranges::find(result, *flags.against, &run_case::name) == result.end())
        throw programs::usage_error(fmt::format("--against '{}' is not the name of a case", *flags.against));
    if (flags.differences && !flags.against) throw programs::usage_error("--differences needs --against CASE");
    return result;
}

/// Drops the page cache, so that a run does not find in memory what the previous one read.
void forget_pages(const fs::path& directory) {
    for (const auto& entry : fs::recursive_directory_iterator(directory))
        if (entry.is_regular_file()) gneiss::plain_file::open(entry.path()).drop_cached(0, 0);
}

/// Returns the names of all stages that took time in a case.
std::vector<std::string> stages_of(const std::vector<outcome>& seen) {
    std::vector<std::string> names;
    for (const outcome& one : seen)
        for (const auto& [name, seconds] : one.stages)
            if (seconds != 0 && std::ranges::find(names, name) == names.end()) names.push_back(name);
    return names;
}

std::string table_of(const std::vector<outcome>& seen, const runs_flags& flags) {
    const std::string at_once = flags.parallel > 1 ? fmt::format(", {} at once", flags.parallel) : "";
    std::vector<programs::table::column> columns{{"case", programs::align::left}, {"runs"}, {"epoch" + at_once},
        {"run" + at_once}, {"waited"}, {"read"}, {"written"}, {"requests"}, {"hits"}, {"loss"}, {"peak RSS"}, {"test"}};
    if (flags.against) columns.push_back({"less " + *flags.against});
    const std::vector<std::string> stages = stages_of(seen);
    for (const std::string& name : stages) columns.push_back({name + at_once});
    programs::table result(columns);
    const auto unless_zero = [](double value, const std::string& text) { return value == 0 ? std::string() : text; };
    const auto bytes = [&](double value) {
        return unless_zero(value, gneiss::format_bytes(static_cast<std::uint64_t>(value)));
    };
    for (const outcome& one : seen) {
        const std::string failed = one.failed != 0 ? fmt::format("{} failed", one.failed) : "";
        if (!one.has_results()) {
            result.add({one.name, failed});
            continue;
        }
        std::vector<std::string> cells{one.name,
            fmt::format("{}{}", one.all_seconds.size(), failed.empty() ? "" : ", " + failed),
            programs::human_seconds(one.seconds), programs::human_seconds(one.run_seconds.mean),
            unless_zero(one.wait_seconds, programs::human_seconds(one.wait_seconds)), bytes(one.read_bytes),
            bytes(one.write_bytes), unless_zero(one.read_requests, programs::human_count(one.read_requests)),
            unless_zero(one.hit_rate, programs::human_percent(one.hit_rate)), fmt::format("{:.6f}", one.loss),
            gneiss::format_bytes(static_cast<std::uint64_t>(one.peak_rss)), programs::to_text(one.test)};
        if (flags.against) cells.push_back(one.name == *flags.against ? "" : programs::to_text(one.difference, true));
        for (const std::string& name : stages) cells.push_back(fmt::format("{:.2f}", one.stage(name)));
        result.add(std::move(cells));
    }
    return result.str();
}

plot::interval_chart differences_of(
    const std::vector<outcome>& seen, const runs_flags& flags, const std::string& title) {
    plot::interval_chart chart{.title = title,
        .x = {.label = fmt::format("test metric minus {}'s, mean and 95 % interval", *flags.against),
            .from_zero = true},
        .points = {}};
    for (const outcome& one : seen)
        if (one.difference.count != 0 && one.name != *flags.against)
            chart.points.push_back({one.name, one.difference.mean, one.difference.half.value_or(0)});
    return chart;
}

plot::bar_chart chart_of(const std::vector<outcome>& seen, const std::string& title) {
    plot::bar_chart chart{.title = title,
        .x_label = {},
        .y = {.label = "busy time per epoch", .of = plot::quantity::seconds, .from_zero = true},
        .categories = {},
        .parts = {},
        .named = true};
    for (const outcome& one : seen)
        if (one.has_results()) chart.categories.push_back(one.name);
    for (const std::string& name : stages_of(seen)) {
        plot::bar_chart::part part{.name = name, .values = {}};
        for (const outcome& one : seen)
            if (one.has_results()) part.values.push_back(one.stage(name));
        chart.parts.push_back(std::move(part));
    }
    return chart;
}

ordered_json json_of(const programs::estimate& of) {
    ordered_json result{{"count", of.count}, {"mean", of.mean}};
    if (of.half) result.update({{"low", of.mean - *of.half}, {"high", of.mean + *of.half}});
    return result;
}

ordered_json json_of(const std::vector<outcome>& seen, const runs_flags& flags) {
    ordered_json list = ordered_json::array();
    for (const outcome& one : seen) {
        ordered_json result{{"case", one.name}};
        if (one.failed != 0) result.update({{"failed", one.failed}, {"failure", one.failure}});
        if (one.has_results()) {
            ordered_json stages = ordered_json::object();
            for (const auto& [name, seconds] : one.stages) stages[name] = seconds;
            result.update(
                {{"seconds", one.seconds}, {"all_seconds", one.all_seconds}, {"run_seconds", one.run_seconds.mean},
                    {"wait_seconds", one.wait_seconds}, {"read_bytes", one.read_bytes},
                    {"write_bytes", one.write_bytes}, {"read_requests", one.read_requests}, {"hit_rate", one.hit_rate},
                    {"loss", one.loss}, {"peak_rss_bytes", one.peak_rss}, {"stage_seconds", stages}});
            if (one.test.count != 0) result["test"] = json_of(one.test);
            if (flags.against && one.difference.count != 0) result["difference"] = json_of(one.difference);
        }
        list.push_back(std::move(result));
    }
    ordered_json output{{"cases", list}, {"parallel", flags.parallel}};
    if (flags.against) output["against"] = *flags.against;
    return output;
}

/// The runs of a study: each case with each seed, interleaved, so that other load on the machine affects all cases
/// alike.
class study {
public:
    study(const runs_flags& flags, const std::vector<run_case>& cases, const std::string& dataset)
        : flags_(flags),
          cases_(cases),
          dataset_(dataset),
          log_(flags.log),
          live_(flags.quiet),
          runs_(cases.size()),
          failed_(cases.size()) {
        for (std::uint64_t round = 0; round < flags.repeat; ++round)
            for (std::uint64_t seed = 1; seed <= std::max<std::uint64_t>(flags.seeds, 1); ++seed)
                for (std::size_t c = 0; c < cases.size(); ++c) {
                    tasks_.push_back(
                        {c, runs_[c].size(), key_of(cases[c], flags.seeds != 0 ? std::optional(seed) : std::nullopt)});
                    runs_[c].push_back(log_.take(tasks_.back().key));
                }
        std::erase_if(tasks_, [&](const task& t) { return runs_[t.of][t.index].has_value(); });
    }

    /// Executes the runs that are not in the log. Throws errc::canceled on a stop; errors of writing the log.
    void run(const std::stop_token& stop) {
        const fs::path within = flags_.work.value_or(fs::temp_directory_path());
        std::error_code ignored;
        const bool made = !fs::exists(within, ignored);
        gneiss::make_directories(within);
        {
            const gneiss::scratch_directory work(within, "gneiss-runs-"); // no run of the user is in it
            execute(work.path(), stop);
        }
        if (made) fs::remove(within, ignored); // unless others have used it meanwhile
        if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
    }

    [[nodiscard]] std::vector<outcome> outcomes() const {
        std::vector<outcome> seen;
        for (std::size_t c = 0; c < cases_.size(); ++c) {
            seen.push_back(summarize(cases_[c].name, runs_[c], flags_.metric));
            seen.back().failed = failed_[c].first;
            seen.back().failure = failed_[c].second;
            for (std::size_t base = 0; base < cases_.size(); ++base)
                if (cases_[base].name == flags_.against)
                    seen.back().difference = paired_difference(runs_[c], runs_[base], flags_.metric);
        }
        return seen;
    }

private:
    /// Executes tasks in directories in `work`.
    void execute(const fs::path& work, const std::stop_token& stop) {
        std::exception_ptr failure;
        const auto some = [&](std::size_t worker) {
            try {
                for (std::size_t i; !stop.stop_requested() && (i = next_++) < tasks_.size();)
                    one(tasks_[i], i, work / fmt::format("run-{}", worker), stop);
            } catch (...) {
                const std::scoped_lock lock(mutex_);
                failure = std::current_exception();
                next_ = tasks_.size();
            }
        };
        {
            std::vector<std::jthread> workers;
            try {
                for (std::size_t w = 0; w < std::min<std::size_t>(flags_.parallel, tasks_.size()); ++w)
                    workers.emplace_back(some, w);
            } catch (const std::system_error&) { // as many as the system grants
                if (workers.empty()) throw;
            }
        }
        live_.clear();
        if (failure) std::rethrow_exception(failure);
    }

    struct task {
        std::size_t of, index; ///< case, and index of the run
        run_key key;
    };

    [[nodiscard]] run_key key_of(const run_case& of, std::optional<std::uint64_t> seed) const {
        return {fs::path(of.program).filename().string(), dataset_, fmt::format("{}", fmt::join(of.flags, " ")), seed};
    }

    void one(const task& task, std::size_t position, const fs::path& run, const std::stop_token& stop) {
        const run_case& of = cases_[task.of];
        live_.say(fmt::format("{}{} ({} of {})", of.name, task.key.seed ? fmt::format(", seed {}", *task.key.seed) : "",
            position + 1, tasks_.size()));
        try {
            if (!flags_.warm && flags_.parallel == 1) forget_pages(flags_.dataset);
            const fs::path sibling = fs::read_symlink("/proc/self/exe").parent_path() / of.program;
            programs::arguments line{fs::exists(sibling) ? sibling.string() : of.program, "train",
                flags_.dataset.string(), "--out", run.string(), "--force", "--json", "--quiet", "--no-report"};
            line.insert(line.end(), of.flags.begin(), of.flags.end());
            if (task.key.seed) line.insert(line.end(), {"--seed", std::to_string(*task.key.seed)});
            const ordered_json done =
                line_of(of.name, task.key, programs::parse_json(programs::output_of(line, stop), of.program));
            const std::scoped_lock lock(mutex_);
            runs_[task.of][task.index] = done;
        } catch (const std::exception& e) { // the others continue
            if (!stop.stop_requested()) live_.warn(e.what());
            const std::scoped_lock lock(mutex_);
            ++failed_[task.of].first;
            failed_[task.of].second = e.what();
        }
        gneiss::try_remove_tree(run);
        const std::scoped_lock lock(mutex_);
        if (const auto& done = runs_[task.of][task.index]) log_.add(*done);
    }

    const runs_flags& flags_;
    const std::vector<run_case>& cases_;
    std::string dataset_;
    study_log log_;
    programs::progress live_;
    std::vector<task> tasks_;
    std::atomic<std::size_t> next_ = 0;
    std::mutex mutex_; ///< guards the members below, and the log
    std::vector<runs_of_case> runs_;
    std::vector<std::pair<std::uint64_t, std::string>>
        failed_; ///< number of failed runs of a case, and the last reason
};

programs::exit_code runs(const runs_flags& flags) {
    programs::check_dataset(flags.dataset);
    const std::vector<run_case> cases = cases_of(flags);
    const std::string name = programs::directory_name(flags.dataset);
    const programs::interrupt_guard interrupts;
    study work(flags, cases, name);
    work.run(interrupts.token());
    const std::vector<outcome> seen = work.outcomes();
    if (flags.out)
        plot::write_svg(
            *flags.out, chart_of(seen, fmt::format("{} on {}: time of an epoch by stage", flags.trainer, name)));
    if (flags.differences)
        plot::write_svg(*flags.differences,
            differences_of(seen, flags, fmt::format("{}: differences over {} seeds", name, flags.seeds)));
    if (flags.json)
        programs::print_json_line(json_of(seen, flags));
    else
        programs::print_text(table_of(seen, flags));
    for (const outcome& one : seen)
        if (one.has_results() && one.test.count == 0 && !flags.metric.empty())
            throw gneiss::error(gneiss::errc::not_found,
                fmt::format("runs of {} have no '{}' of the test split", one.name, flags.metric));
    return std::ranges::all_of(seen, [](const outcome& one) { return one.failed == 0; }) ? programs::exit_code::done
                                                                                         : programs::exit_code::failed;
}

} // namespace

void add_runs(programs::command_line& to) {
    const auto flags = std::make_shared<runs_flags>();
    programs::command& command =
        to.add("runs", "Trains with different flags in turn and compares the epochs, stage by stage.",
            [flags](programs::command&) { return runs(*flags); });
    command.positional("trainer", flags->trainer, "a program: gneiss-ginex, gneiss-hanoi, ...");
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.option("case", flags->cases, "case to compare: 'NAME: FLAGS', or 'NAME: PROGRAM FLAGS' for another trainer")
        .words(1, 64)
        .value_name("CASE");
    command.option("vary", flags->vary, "instead of cases: a flag without its dashes, and its values")
        .words(2, 64)
        .value_name("WORD");
    command.option("with", flags->with, "flags of all runs").value_name("FLAGS");
    command.option("repeat", flags->repeat, "runs per case, in turn; reports medians").range(1, 1000);
    command.option("runs", flags->seeds, "runs per case with --seed 1 to N; reports means and 95 % intervals")
        .range(1, 10000)
        .default_text("the trainers' seed")
        .formerly("seeds");
    command.option("against", flags->against, "base case; reports differences to it, seed by seed").value_name("CASE");
    command.option("metric", flags->metric, "metric of the test split: macro_f1, roc_auc, ...")
        .default_text("accuracy or mrr");
    command.option("parallel", flags->parallel, "concurrent runs; their times are not measurements").range(1, 256);
    command.option("log", flags->log, "log of finished runs; logged runs are not repeated").value_name("FILE.jsonl");
    command.option("warm", flags->warm, "leave the dataset in the page cache between runs");
    command.option("work", flags->work, "directory of the runs; each is removed afterwards")
        .value_name("DIR")
        .default_text("a temporary one");
    command.option("out", flags->out, "chart of the stages to write, its values beside it as CSV")
        .value_name("FILE.svg");
    command
        .option("differences", flags->differences,
            "chart of differences and intervals to write, its values beside it as CSV")
        .value_name("FILE.svg");
    command.option("json", flags->json, "print the result as one JSON object");
    command.option("quiet", flags->quiet, "no progress");
    command.example("gneiss-study runs gneiss-marius data/mine --vary buffer 4 8 16 --repeat 3");
}

} // namespace study
