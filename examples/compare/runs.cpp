#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/plain_file.hpp>

#include "commands.hpp"
#include "common/dataset_path.hpp"
#include "common/plot.hpp"
#include "common/process.hpp"
#include "common/signals.hpp"
#include "common/terminal.hpp"
#include "common/units.hpp"

namespace compare {
namespace {

namespace fs = std::filesystem;
namespace plot = programs::plot;
using nlohmann::ordered_json;

struct runs_flags {
    std::string trainer{};
    fs::path dataset{};
    std::vector<std::string> cases{}, vary{};
    std::optional<std::string> with{};
    std::uint64_t repeat = 1;
    bool warm = false, json = false, quiet = false;
    std::optional<fs::path> work{}, out{};
};

/// Flags of one of the runs that are compared.
struct run_case {
    std::string name;
    programs::arguments flags;
};

programs::arguments words_of(std::string_view text) {
    programs::arguments words;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(' ', begin), text.size());
        if (end != begin) words.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return words;
}

/// `NAME: FLAGS` and `FLAG VALUE VALUE …`, in the order they were given.
std::vector<run_case> cases_of(const runs_flags& flags) {
    std::vector<run_case> made;
    for (const std::string& text : flags.cases) {
        const std::size_t colon = text.find(": ");
        if (colon == std::string::npos || colon == 0)
            throw programs::usage_error(fmt::format("--case '{}' is not 'NAME: FLAGS'", text));
        made.push_back({text.substr(0, colon), words_of(std::string_view(text).substr(colon + 1))});
    }
    if (!flags.vary.empty()) {
        if (!made.empty()) throw programs::usage_error("--case and --vary are two ways to say the same: one of them");
        const std::string& flag = flags.vary.front();
        for (std::size_t i = 1; i < flags.vary.size(); ++i)
            made.push_back({flag + " " + flags.vary[i], {"--" + flag, flags.vary[i]}});
    }
    if (made.empty()) throw programs::usage_error("--case or --vary says what the runs differ in");
    return made;
}

/// So that a run does not find in memory what the one before it read.
void forget_pages(const fs::path& directory) {
    for (const auto& entry : fs::recursive_directory_iterator(directory))
        if (entry.is_regular_file()) gneiss::plain_file::open(entry.path()).drop_cached(0, 0);
}

/// What is told of a case: medians over its runs, of each the mean epoch.
struct outcome {
    std::string name;
    std::string failure{}; ///< why there is nothing else
    std::vector<double> all_seconds{};
    double seconds = 0, read_bytes = 0, read_requests = 0, hit_rate = 0, loss = 0, peak_rss = 0, accuracy = 0;
    std::vector<std::pair<std::string, double>> stages{};
};

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

outcome summarise(const std::string& name, const std::vector<ordered_json>& runs) {
    outcome made{.name = name};
    const auto over_runs = [&](auto value) {
        std::vector<double> values;
        for (const ordered_json& run : runs) values.push_back(value(run));
        return median(values);
    };
    const auto of_epochs = [](const ordered_json& run, const auto& key) {
        double sum = 0;
        for (const ordered_json& epoch : run.at("epochs")) sum += epoch.value(key, 0.0);
        return sum / static_cast<double>(std::max<std::size_t>(run.at("epochs").size(), 1));
    };
    for (const ordered_json& run : runs) made.all_seconds.push_back(of_epochs(run, "seconds"));
    made.seconds = median(made.all_seconds);
    made.read_bytes = over_runs([&](const ordered_json& r) { return of_epochs(r, "read_bytes"); });
    made.read_requests = over_runs([&](const ordered_json& r) { return of_epochs(r, "read_requests"); });
    made.hit_rate = over_runs([&](const ordered_json& r) { return of_epochs(r, "hit_rate"); });
    made.loss = over_runs([](const ordered_json& r) { return r.at("epochs").back().value("loss", 0.0); });
    made.peak_rss = over_runs([](const ordered_json& r) { return r.value("peak_rss_bytes", 0.0); });
    made.accuracy = over_runs([](const ordered_json& r) {
        const auto metrics = r.value("metrics", ordered_json::object()).value("test", ordered_json::object());
        return metrics.value("accuracy", metrics.value("mrr", 0.0));
    });
    for (const auto& [stage, ignored] : runs.front().at("epochs").front().at("stage_seconds").items())
        made.stages.emplace_back(stage, over_runs([&, stage = stage](const ordered_json& r) {
            double sum = 0;
            for (const ordered_json& epoch : r.at("epochs")) sum += epoch.at("stage_seconds").value(stage, 0.0);
            return sum / static_cast<double>(r.at("epochs").size());
        }));
    return made;
}

/// Names of all stages that took time in a case.
std::vector<std::string> stages_of(const std::vector<outcome>& seen) {
    std::vector<std::string> names;
    for (const outcome& one : seen)
        for (const auto& [name, seconds] : one.stages)
            if (seconds != 0 && std::ranges::find(names, name) == names.end()) names.push_back(name);
    return names;
}

double stage(const outcome& of, const std::string& name) {
    const auto found = std::ranges::find(of.stages, name, &std::pair<std::string, double>::first);
    return found == of.stages.end() ? 0 : found->second;
}

std::string table_of(const std::vector<outcome>& seen) {
    std::vector<programs::table::column> columns{
        {"case", programs::align::left}, {"epoch"}, {"read"}, {"requests"}, {"hits"}, {"loss"}, {"test"}, {"peak RSS"}};
    const std::vector<std::string> stages = stages_of(seen);
    for (const std::string& name : stages) columns.push_back({name});
    programs::table made(columns);
    const auto unless_zero = [](double value, const std::string& text) { return value == 0 ? std::string() : text; };
    for (const outcome& one : seen) {
        if (!one.failure.empty()) {
            made.add({one.name, "failed"});
            continue;
        }
        std::vector<std::string> cells{one.name, programs::human_seconds(one.seconds),
            unless_zero(one.read_bytes, gneiss::format_bytes(static_cast<std::uint64_t>(one.read_bytes))),
            unless_zero(one.read_requests, programs::human_count(one.read_requests)),
            unless_zero(one.hit_rate, programs::human_percent(one.hit_rate)), fmt::format("{:.6f}", one.loss),
            unless_zero(one.accuracy, fmt::format("{:.4f}", one.accuracy)),
            gneiss::format_bytes(static_cast<std::uint64_t>(one.peak_rss))};
        for (const std::string& name : stages) cells.push_back(fmt::format("{:.2f}", stage(one, name)));
        made.add(std::move(cells));
    }
    return made.str();
}

plot::bar_chart chart_of(const std::vector<outcome>& seen, const std::string& title) {
    plot::bar_chart chart{.title = title, .x_label = {}, .y = {.label = "busy seconds an epoch", .of = plot::quantity::seconds, .from_zero = true}, .categories = {}, .parts = {}};
    for (const outcome& one : seen)
        if (one.failure.empty()) chart.categories.push_back(one.name);
    for (const std::string& name : stages_of(seen)) {
        plot::bar_chart::part part{.name = name, .values = {}};
        for (const outcome& one : seen)
            if (one.failure.empty()) part.values.push_back(stage(one, name));
        chart.parts.push_back(std::move(part));
    }
    return chart;
}

ordered_json json_of(const std::vector<outcome>& seen) {
    ordered_json list = ordered_json::array();
    for (const outcome& one : seen) {
        if (!one.failure.empty()) {
            list.push_back({{"case", one.name}, {"failure", one.failure}});
            continue;
        }
        ordered_json stages = ordered_json::object();
        for (const auto& [name, seconds] : one.stages) stages[name] = seconds;
        list.push_back({{"case", one.name}, {"seconds", one.seconds}, {"all_seconds", one.all_seconds}, {"read_bytes", one.read_bytes},
            {"read_requests", one.read_requests}, {"hit_rate", one.hit_rate}, {"loss", one.loss}, {"test", one.accuracy},
            {"peak_rss_bytes", one.peak_rss}, {"stage_seconds", stages}});
    }
    return {{"cases", list}};
}

programs::exit_code runs(const runs_flags& flags) {
    programs::check_dataset(flags.dataset);
    const std::vector<run_case> cases = cases_of(flags);
    const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / flags.trainer;
    const std::string program = fs::exists(beside) ? beside.string() : flags.trainer;
    const fs::path work = flags.work.value_or(fs::temp_directory_path() / fmt::format("gneiss-runs-{}", ::getpid()));
    const programs::interrupt_guard interrupts;
    programs::progress live(flags.quiet);
    std::map<std::string, std::vector<ordered_json>> done;
    std::map<std::string, std::string> failures;
    for (std::uint64_t round = 0; round < flags.repeat; ++round)
        for (const run_case& one : cases) { // in turn, so that what else the machine does meets all of them
            if (interrupts.interrupted()) throw gneiss::error(gneiss::errc::cancelled, "interrupted");
            if (failures.contains(one.name)) continue;
            live.say(fmt::format("{} ({} of {})", one.name, round + 1, flags.repeat));
            if (!flags.warm) forget_pages(flags.dataset);
            const fs::path run = work / "run";
            programs::arguments line{program, "train", flags.dataset.string(), "--out", run.string(), "--force", "--json", "--quiet", "--no-report"};
            for (const auto& more : {words_of(flags.with.value_or("")), one.flags}) line.insert(line.end(), more.begin(), more.end());
            try {
                done[one.name].push_back(ordered_json::parse(programs::output_of(line)));
            } catch (const gneiss::error& e) {
                live.say(e.what());
                failures[one.name] = e.what();
            }
            std::error_code ignored;
            fs::remove_all(run, ignored);
        }
    std::error_code ignored;
    fs::remove(work, ignored);
    std::vector<outcome> seen;
    for (const run_case& one : cases)
        seen.push_back(failures.contains(one.name) ? outcome{.name = one.name, .failure = failures[one.name]} : summarise(one.name, done[one.name]));
    const std::string name = (flags.dataset / "").parent_path().filename().string();
    if (flags.out) {
        if (flags.out->has_parent_path()) fs::create_directories(flags.out->parent_path());
        plot::write_svg(*flags.out, chart_of(seen, fmt::format("{} on {}: where an epoch's time goes", flags.trainer, name)));
    }
    live.clear();
    if (flags.json) fmt::print("{}\n", json_of(seen).dump());
    else fmt::print("{}", table_of(seen));
    return failures.empty() ? programs::exit_code::done : programs::exit_code::failed;
}

} // namespace

void add_runs(programs::command_line& to) {
    const auto flags = std::make_shared<runs_flags>();
    programs::command& command = to.add("runs", "Trains with different flags in turn and compares what the epochs took, stage by stage.",
        [flags](programs::command&) { return runs(*flags); });
    command.positional("trainer", flags->trainer, "a program: gneiss-ginex, gneiss-hanoi, ...");
    command.positional("dataset", flags->dataset, "directory of the dataset");
    command.option("case", flags->cases, "one run each: 'NAME: FLAGS'").words(1, 64).value_name("CASE");
    command.option("vary", flags->vary, "or: a flag without its dashes, and its values").words(2, 64).value_name("WORD");
    command.option("with", flags->with, "flags of all runs").value_name("FLAGS");
    command.option("repeat", flags->repeat, "runs of each case, in turn; medians are told").range(1, 1000);
    command.option("warm", flags->warm, "leave the dataset in the page cache between runs");
    command.option("work", flags->work, "directory for the runs; each is removed after it").value_name("DIR").default_text("a temporary one");
    command.option("out", flags->out, "a chart of the stages").value_name("FILE.svg");
    command.option("json", flags->json, "the result as one JSON object");
    command.option("quiet", flags->quiet, "no progress");
}

} // namespace compare
