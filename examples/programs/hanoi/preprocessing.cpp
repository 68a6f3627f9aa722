// SPDX-License-Identifier: Apache-2.0
#include "preprocessing.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/checksum.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/integer_file.hpp>
#include <gneiss/io/reorder.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/exit_codes.hpp"
#include "kit/cli/machine.hpp"
#include "kit/gnn/gnn_commands.hpp"
#include "kit/graph/node_file.hpp"
#include "kit/graph/partitioning.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/refused_plan.hpp"
#include "kit/run/run_loop.hpp"

namespace hanoi {

namespace {

using json = nlohmann::ordered_json;
using trainers::clock;

[[noreturn]] void refuse_hubs(
    const options& how, std::uint64_t budget, std::uint64_t count, std::uint64_t bytes, std::uint64_t fit) {
    throw trainers::refused_plan(budget, {how.program_need(), {"hubs", bytes}},
        fmt::format("--hubs {}: of {} nodes the most that fit are {}", *how.hubs, count, fit));
}

/// The steps that make a run's own dataset, and their records.
class preparation {
public:
    explicit preparation(const preprocessing& of)
        : of_(of),
          directory_(of.run.directory.checkpoint()),
          graph_(directory_ / trainers::partitioned_name),
          progress_([live = &of.live](std::string_view phase, std::uint64_t done, std::uint64_t total) {
              live->step(phase, done, total);
          }),
          budget_(of.budget),
          program_(budget_.charge(of.how.program_need())) {
        (void)gneiss::make_directory(directory_);
        if (std::filesystem::exists(record_path())) {
            record_ = programs::parse_json_object(programs::read_file(record_path()));
            if (!is_record(record_)) record_ = json::object(); // starts over
        }
        if (record_.value("identity", "") == identity()) return;
        record_ = {{"identity", identity()}};
        gneiss::remove_tree(graph_); // possibly of another graph
        remove_parts();
        std::filesystem::remove(hubs_path());
    }

    preprocessed run() {
        if (!done("reorder") || !std::filesystem::exists(graph_)) {
            if (of_.how.makes_parts() && !(done("partition") && std::filesystem::exists(parts_path()))) partition();
            if (of_.how.choice_of_hubs().count && !hubs_chosen()) choose_hubs();
            reorder();
        }
        auto data = std::make_shared<const gneiss::dataset>(graph_);
        json report = record_;
        report.erase("identity");
        double seconds = 0;
        std::uint64_t peak = 0;
        for (const auto& [name, step] : report.items()) {
            seconds += step.value("seconds", 0.0);
            peak = std::max(peak, step.value("peak_rss_bytes", std::uint64_t{0}));
        }
        report["seconds"] = seconds;
        report["peak_rss_bytes"] = peak;
        return {std::move(data), std::move(report)};
    }

private:
    /// Returns true for an object of steps by name, with an identity.
    [[nodiscard]] static bool is_record(const json& read) {
        if (!read.is_object()) return false;
        for (const auto& [name, value] : read.items()) {
            if (name == "identity" ? !value.is_string() : !value.is_object()) return false;
            for (const char* number : {"seconds", "memory_bytes", "peak_rss_bytes", "hubs"})
                if (value.is_object() && value.contains(number) && !value.at(number).is_number()) return false;
        }
        return !read.contains("hubs") || read.at("hubs").contains("hubs");
    }
    [[nodiscard]] std::filesystem::path record_path() const { return directory_ / programs::preprocessing_name; }
    [[nodiscard]] std::filesystem::path parts_path() const { return directory_ / "parts.npy"; }
    [[nodiscard]] std::filesystem::path first_path() const { return directory_ / "parts-first.npy"; }
    [[nodiscard]] std::filesystem::path refined_path() const { return directory_ / "parts-refined.npy"; }
    [[nodiscard]] std::filesystem::path hubs_path() const { return directory_ / "hubs.npy"; }

    /// Hashes everything that determines the dataset.
    [[nodiscard]] std::string identity() const {
        const options& how = of_.how;
        const auto file = [](const std::optional<std::filesystem::path>& path) {
            return path ? fmt::format("{} {}", path->string(), std::filesystem::file_size(*path)) : std::string("-");
        };
        const std::string all = fmt::format("{:x} {} {} {} {} {} {}{}{}{}", trainers::dataset_hash(of_.from),
            *how.partitioner, how.partitions.value_or(0), how.seed, how.hubs.value_or("-"), file(how.assignment),
            file(how.choice_of_hubs().file), how.partitioning.text(),
            how.partitioning.initial_file() ? file(how.partitioning.initial_file()) : "",
            how.choice_of_hubs().count ? fmt::format(" {} hops", gneiss::hops_of(how.layer_options(1))) : "");
        return fmt::format("{:016x}", gneiss::checksum(std::as_bytes(std::span(all))));
    }
    [[nodiscard]] bool done(const char* step) const { return record_.contains(step); }
    /// True also if none is pinned, and there is no file.
    [[nodiscard]] bool hubs_chosen() const {
        return done("hubs") && (number_of_hubs() == 0 || std::filesystem::exists(hubs_path()));
    }
    [[nodiscard]] std::uint64_t number_of_hubs() const { return record_.at("hubs").at("hubs"); }
    void finish(const char* step, json what) {
        what["peak_rss_bytes"] = programs::peak_rss();
        record_[step] = std::move(what);
        programs::write_file_atomically(record_path(), programs::pretty(record_));
    }

    /// Removes assignments, finished or not.
    void remove_parts() const {
        std::vector<std::filesystem::path> found;
        for (const auto& entry : std::filesystem::directory_iterator(directory_))
            for (const auto& path : {parts_path(), first_path(), refined_path()}) // and their journals
                if (entry.path().string().starts_with(path.string())) found.push_back(entry.path());
        for (const auto& path : found) std::filesystem::remove(path);
    }
    [[nodiscard]] programs::graph_work work() {
        return {.budget = budget_,
            .on = of_.on,
            .progress = progress_,
            .say = [live = &of_.live](const std::string& text) { live->say(text); },
            .stop = of_.stop,
            .scratch = directory_};
    }
    programs::partition_result partition_once(programs::partition_job job) {
        programs::graph_work with = work();
        if (!job.out) job.out = parts_path();
        return programs::make_parts(of_.from, job, with);
    }
    /// Partitions by one pass, and if that finds communities by `partition_twice`.
    programs::partition_result partition_by_default() {
        programs::partition_job job = of_.how.partition_job();
        job.flags.passes = 1;
        job.out = first_path();
        programs::partition_result first = partition_once(job);
        if (first.quality.cut > options::most_relative_cut * (1 - 1.0 / first.quality.parts)) {
            gneiss::rename_into_place(first_path(), parts_path());
            return first;
        }
        programs::partition_result best = partition_twice();
        best.partition_seconds += first.partition_seconds;
        std::filesystem::remove(first_path());
        return best;
    }
    /// Partitions from nothing and from the initial partitions, and keeps the assignment with fewer cut edges; the
    /// first one if memory is too short for the other.
    programs::partition_result partition_twice() {
        programs::partition_job job = of_.how.partition_job();
        programs::partition_result best = partition_once(job);
        job.initial = options::initial_partitioner;
        job.out = refined_path();
        try {
            programs::partition_result other = partition_once(job);
            const double both = best.partition_seconds + other.partition_seconds;
            if (other.quality.cut < best.quality.cut) {
                gneiss::rename_into_place(refined_path(), parts_path());
                std::swap(best, other);
            }
            best.partition_seconds = both;
        } catch (const gneiss::over_budget& e) {
            of_.live.say(fmt::format("{} partitions are not refined: {}", *job.initial, e.what()));
        }
        std::filesystem::remove(refined_path());
        return best;
    }
    void partition() {
        const programs::partition_result result =
            of_.how.gap_by_default() ? partition_by_default() : partition_once(of_.how.partition_job());
        const gneiss::partition_quality& q = result.quality;
        of_.live.say(fmt::format("{} partitions by {}: {:.1f} % of the edges cut, labels {:+.1f} % ({:.1f} s)", q.parts,
            result.method, 100 * q.cut, 100 * q.label_imbalance, result.seconds()));
        json report{{"method", result.method}, {"partitions", q.parts}, {"seconds", result.seconds()},
            {"prepare_seconds", result.prepare_seconds}, {"partition_seconds", result.partition_seconds},
            {"quality_seconds", result.quality_seconds}, {"cut", q.cut}, {"node_imbalance", q.node_imbalance},
            {"edge_imbalance", q.edge_imbalance}, {"label_imbalance", q.label_imbalance},
            {"graph", result.in_memory ? "memory" : "disk"}, {"memory_bytes", result.memory_bytes},
            {"peak_disk_bytes", result.disk_bytes}};
        if (result.resumed_step != 0) report["resumed_step"] = result.resumed_step;
        finish("partition", std::move(report));
    }

    void choose_hubs() {
        const programs::count_or_percent asked = *of_.how.choice_of_hubs().count;
        const std::uint64_t nodes = of_.from.manifest().nodes, count = asked.of(nodes);
        const std::uint64_t most = of_.how.hubs_by_default() ? hub_share(of_.budget) : budget_.available();
        const hub_bytes each = bytes_of_hubs(of_.how, of_.from);
        const std::uint64_t few = std::min(count, most / std::max<std::uint64_t>(each.node, 1));
        programs::hub_result result;
        const auto steps = static_cast<std::uint32_t>(gneiss::hops_of(of_.how.layer_options(1)));
        if (few != 0) {
            programs::graph_work with = work();
            result = programs::choose_hubs(of_.from,
                {.count = few,
                    .steps = steps,
                    .out = hubs_path(),
                    .most_bytes = most,
                    .node_bytes = each.node,
                    .edge_bytes = each.edge},
                with);
            if (!of_.how.hubs_by_default() && result.hubs < count)
                refuse_hubs(of_.how, of_.budget, count, most, result.hubs);
        }
        std::string why; // other than the requested number
        if (result.hubs < count)
            why = fmt::format("; {} is {}, but a quarter of the budget holds no more", *of_.how.hubs, count);
        std::uint64_t pinned = result.hubs;
        if (of_.how.hubs_by_default() && pinned != 0 && result.influence_share < options::least_hub_influence) {
            why += fmt::format("; none is pinned below {:.0f} %", 100 * options::least_hub_influence);
            pinned = 0;
            std::filesystem::remove(hubs_path());
        }
        of_.live.say(fmt::format(
            "{} hubs of {} nodes, where {:.1f} % of the walks of {} steps from training nodes end{} ({:.1f} s)",
            result.hubs, nodes, 100 * result.influence_share, steps, why, result.seconds));
        json report{{"hubs", pinned}, {"asked", count}, {"steps", steps}, {"influence_share", result.influence_share},
            {"seconds", result.seconds}, {"memory_bytes", result.memory_bytes}};
        if (few != 0) report["graph"] = result.in_memory ? "memory" : "disk";
        finish("hubs", std::move(report));
    }

    /// Returns the rows of the nodes to pin.
    [[nodiscard]] std::vector<gneiss::node_id> hubs() const {
        const options& how = of_.how;
        const auto choice = how.choice_of_hubs();
        if (choice.file) return programs::rows_in(*choice.file, of_.from, of_.budget / 8);
        if (choice.count)
            return number_of_hubs() == 0 ? std::vector<gneiss::node_id>{}
                                         : programs::rows_in(hubs_path(), of_.from, of_.budget / 8);
        std::vector<gneiss::node_id> own(
            static_cast<std::size_t>(of_.from.rows().begin(how.pinned(of_.from)))); // the dataset's
        std::iota(own.begin(), own.end(), gneiss::node_id{0});
        return own;
    }

    void reorder() {
        const auto began = clock::now();
        gneiss::reorder_options order{
            .seed = of_.how.seed, .memory = of_.budget / 2, .progress = progress_, .stop = of_.stop};
        order.hubs = hubs();
        if (of_.how.assignment) order.by = *of_.how.assignment;
        if (of_.how.makes_parts()) order.by = parts_path();
        gneiss::remove_tree(graph_); // leftovers of a killed process
        gneiss::reorder(of_.from, graph_, order, of_.on);
        const gneiss::dataset result(graph_);
        const double seconds = trainers::seconds_since(began);
        of_.live.say(
            fmt::format("{} partitions of up to {} nodes, {} hubs pinned ({:.1f} s)", result.manifest().partitions,
                result.rows().capacity(), result.rows().begin(result.manifest().pinned), seconds));
        finish("reorder",
            {{"seconds", seconds}, {"partitions", result.manifest().partitions},
                {"pinned_nodes", result.rows().begin(result.manifest().pinned)}, {"memory_bytes", order.memory}});
        remove_parts();
        std::filesystem::remove(hubs_path());
    }

    const preprocessing& of_;
    std::filesystem::path directory_, graph_;
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress_;
    gneiss::memory_budget budget_;
    gneiss::memory_charge program_;
    json record_ = json::object();
};

} // namespace

hub_bytes bytes_of_hubs(const options& how, const gneiss::dataset& data) {
    const gneiss::node_features features = data.features();
    const std::uint64_t row = gneiss::ceil_div(features.bytes(), std::max<std::uint64_t>(features.rows(), 1));
    const std::uint64_t sides = how.neighbors() == gneiss::neighbor_direction::both ? 2 : 1;
    return {.node = row + 16 * sides, .edge = 4 * sides};
}

void check_hubs(const options& how, const gneiss::dataset& from, std::uint64_t budget) {
    const auto choice = how.choice_of_hubs();
    if (how.hubs_by_default() || (!choice.count && !choice.file)) return;
    const std::uint64_t count =
        choice.count ? choice.count->of(from.manifest().nodes) : gneiss::integer_file(*choice.file).size();
    if (count == 0)
        throw programs::usage_error(fmt::format(
            "--hubs {} of {} nodes selects no node: give more, or 0 for none", *how.hubs, from.manifest().nodes));
    const std::uint64_t each = std::max<std::uint64_t>(bytes_of_hubs(how, from).node, 1),
                        program = how.program_need().bytes;
    const std::uint64_t left = budget - std::min(budget, program);
    if (count > left / each) refuse_hubs(how, budget, count, count * each, left / each);
}

preprocessed preprocess(const preprocessing& of) {
    return trainers::or_what_helps(
        [&] { return preparation(of).run(); }, "partitions alone need this, training needs more");
}

} // namespace hanoi
