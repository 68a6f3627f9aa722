// SPDX-License-Identifier: Apache-2.0
#include "study.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>

#include "kit/report/run_directory.hpp"

namespace study {
namespace {

using nlohmann::ordered_json;

run_key key_of(const ordered_json& line) {
    run_key key{line.at("program"), line.at("dataset"), line.at("flags")};
    if (line.contains("seed")) key.seed = line.at("seed").get<std::uint64_t>();
    return key;
}

/// Means of values by seed: runs of one seed are not independent.
class means_by_seed {
public:
    void add(const ordered_json& run, double value) { of_[key_of(run).seed].push_back(value); }
    [[nodiscard]] programs::estimate estimate() const {
        std::vector<double> means;
        for (const auto& [seed, values] : of_) means.push_back(programs::estimate_mean(values).mean);
        return programs::estimate_mean(means);
    }

private:
    std::map<std::optional<std::uint64_t>, std::vector<double>> of_;
};

} // namespace

ordered_json line_of(const std::string& name, const run_key& key, const ordered_json& run) {
    const ordered_json& epochs = run.at("epochs");
    const auto count = static_cast<double>(std::max<std::size_t>(epochs.size(), 1));
    ordered_json epoch = {{"count", epochs.size()}}, stages = ordered_json::object();
    for (const char* value : {"seconds", "examples", "sampled_edges", "read_bytes", "write_bytes", "read_requests",
             "hit_rate", "wait_seconds"}) {
        double sum = 0;
        for (const ordered_json& one : epochs) sum += one.value(value, 0.0);
        epoch[value] = sum / count;
    }
    epoch["loss"] = epochs.empty() ? 0.0 : epochs.back().value("loss", 0.0);
    for (const ordered_json& one : epochs) {
        const ordered_json took = one.value("stage_seconds", ordered_json::object());
        for (const auto& [stage, seconds] : took.items())
            stages[stage] = stages.value(stage, 0.0) + seconds.get<double>() / count;
    }
    epoch["stage_seconds"] = std::move(stages);
    ordered_json line = {{"case", name}, {"program", key.program}, {"dataset", key.dataset}};
    if (key.seed) line["seed"] = *key.seed;
    line.update({{"flags", key.flags}, {"metrics", run.value("metrics", ordered_json::object())},
        {"seconds", run.at("seconds")}, {"peak_rss_bytes", run.at("peak_rss_bytes")}, {"epoch", std::move(epoch)}});
    return line;
}

study_log::study_log(std::optional<std::filesystem::path> file) : file_(std::move(file)) {
    if (!file_ || !std::filesystem::exists(*file_)) return;
    lines_ = programs::read_json_lines(*file_);
    for (std::size_t i = 0; i < lines_.size(); ++i) try {
            (void)key_of(lines_[i]);
            (void)lines_[i].at("epoch").at("seconds").get<double>();
            (void)summarize({}, {lines_[i]}, {}); // validates the line
        } catch (const nlohmann::json::exception&) {
            throw gneiss::error(
                gneiss::errc::invalid_format, "is not a run of a study", {.path = *file_, .line = i + 1});
        }
    const std::string text = programs::read_file(*file_);
    if (!text.empty() && text.back() != '\n')
        programs::write_file_atomically(*file_, text.substr(0, text.rfind('\n') + 1));
}

std::optional<ordered_json> study_log::take(const run_key& key) {
    const auto found = std::ranges::find_if(lines_, [&](const ordered_json& line) { return key_of(line) == key; });
    if (found == lines_.end()) return std::nullopt;
    ordered_json line = std::move(*found);
    lines_.erase(found);
    return line;
}

void study_log::add(const ordered_json& line) const {
    if (file_) programs::append_json_line(*file_, line);
}

std::optional<double> test_metric(const ordered_json& line, const std::string& metric) {
    const ordered_json metrics = line.at("metrics").value("test", ordered_json::object());
    for (const std::string& name : metric.empty() ? std::vector<std::string>{"accuracy", "mrr"} : std::vector{metric})
        if (metrics.contains(name)) return metrics.at(name).get<double>();
    return std::nullopt;
}

double outcome::stage(const std::string& named) const {
    const auto found = std::ranges::find(stages, named, &std::pair<std::string, double>::first);
    return found == stages.end() ? 0 : found->second;
}

outcome summarize(const std::string& name, const runs_of_case& runs, const std::string& metric) {
    outcome result{.name = name};
    std::vector<ordered_json> done;
    for (const auto& run : runs)
        if (run) done.push_back(*run);
    const auto of_runs = [&](const auto& value) {
        std::vector<double> values;
        for (const ordered_json& run : done) values.push_back(value(run));
        return values;
    };
    const auto of_epochs = [&](const char* key) {
        return of_runs([&](const ordered_json& run) { return run.at("epoch").value(key, 0.0); });
    };
    result.all_seconds = of_epochs("seconds");
    result.seconds = programs::median(result.all_seconds);
    result.read_bytes = programs::median(of_epochs("read_bytes"));
    result.write_bytes = programs::median(of_epochs("write_bytes"));
    result.wait_seconds = programs::median(of_epochs("wait_seconds"));
    result.read_requests = programs::median(of_epochs("read_requests"));
    result.hit_rate = programs::median(of_epochs("hit_rate"));
    result.loss = programs::median(of_epochs("loss"));
    result.peak_rss =
        programs::median(of_runs([](const ordered_json& run) { return run.value("peak_rss_bytes", 0.0); }));
    result.run_seconds =
        programs::estimate_mean(of_runs([](const ordered_json& run) { return run.value("seconds", 0.0); }));
    means_by_seed tests;
    for (const ordered_json& run : done)
        if (const auto value = test_metric(run, metric)) tests.add(run, *value);
    result.test = tests.estimate();
    const auto stages_of = [](const ordered_json& run) {
        return run.at("epoch").value("stage_seconds", ordered_json::object());
    };
    const ordered_json names = done.empty() ? ordered_json::object() : stages_of(done.front());
    for (const auto& [stage, ignored] : names.items())
        result.stages.emplace_back(stage, programs::median(of_runs([&, stage = stage](const ordered_json& run) {
            return stages_of(run).value(stage, 0.0);
        })));
    return result;
}

programs::estimate paired_difference(const runs_of_case& runs, const runs_of_case& base, const std::string& metric) {
    means_by_seed differences;
    for (std::size_t i = 0; i < std::min(runs.size(), base.size()); ++i) {
        if (!runs[i] || !base[i]) continue;
        const auto ours = test_metric(*runs[i], metric), theirs = test_metric(*base[i], metric);
        if (ours && theirs) differences.add(*runs[i], *ours - *theirs);
    }
    return differences.estimate();
}

} // namespace study
