// SPDX-License-Identifier: Apache-2.0
#include "partitions.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/graph/partitioning.hpp"
#include "kit/report/file_names.hpp"
#include "kit/run/refused_plan.hpp"

namespace joestar {

namespace {

constexpr const char* file_name = "parts.npy";
/// As of gneiss-hanoi: further passes of GAP are for graphs with communities, of which one pass cuts at most this share
/// of the edges that random partitions cut.
constexpr double most_relative_cut = .8, label_cap = 1.5;
constexpr std::uint64_t passes = 10;

std::vector<std::uint16_t> make(const options& how, const gneiss::dataset& data, const gneiss::tbb_executor& executor,
    trainers::run_reporter& live, const std::stop_token& stop) {
    gneiss::memory_budget budget(how.memory->bytes);
    const auto program = budget.charge(how.program_need());
    const gneiss::scratch_directory scratch(std::filesystem::temp_directory_path());
    programs::graph_work work{.budget = budget,
        .on = executor,
        .progress = [&](std::string_view phase, std::uint64_t done,
                        std::uint64_t total) { live.step(phase, done, total); },
        .say = [&](const std::string& text) { live.say(text); },
        .stop = stop,
        .scratch = scratch.path()};
    programs::partition_job job{.method = *programs::find_method("gap"),
        .parts = *how.partitions,
        .seed = how.seed,
        .label_cap = label_cap,
        .out = scratch.path() / "first.npy"};
    job.flags.passes = 1;
    programs::partition_result best = programs::make_parts(data, job, work);
    std::filesystem::path file = *job.out;
    if (best.quality.cut <= most_relative_cut * (1 - 1.0 / *how.partitions)) {
        job.flags.passes = passes;
        job.initial = "semi";
        job.out = scratch.path() / "refined.npy";
        programs::partition_result refined = programs::make_parts(data, job, work);
        if (refined.quality.cut < best.quality.cut) {
            best = std::move(refined);
            file = *job.out;
        }
    }
    live.say(fmt::format("{} partitions by gap: {:.1f} % of the edges cut, labels {:+.1f} %", best.quality.parts,
        100 * best.quality.cut, 100 * best.quality.label_imbalance));
    return gneiss::read_assignment(data, file);
}

std::filesystem::path kept_in(const std::filesystem::path& checkpoint) { return checkpoint / file_name; }

} // namespace

node_partitions partitions_of(const options& how, const gneiss::dataset& data, const gneiss::tbb_executor& executor,
    trainers::run_reporter& live, const std::stop_token& stop) {
    const gneiss::dataset_manifest& graph = data.manifest();
    node_partitions result;
    std::vector<std::uint16_t> of;
    if (how.assignment) {
        of = gneiss::read_assignment(data, *how.assignment);
        result.count = of.empty() ? 1 : *std::ranges::max_element(of) + 1U;
    } else if (how.makes_partitions(graph)) {
        result.count = *how.partitions;
        const std::filesystem::path kept =
            how.out ? kept_in(*how.out / programs::checkpoint_directory) : std::filesystem::path();
        if (how.resume && std::filesystem::exists(kept)) {
            of = gneiss::read_assignment(data, kept);
        } else {
            of = trainers::or_what_helps([&] { return make(how, data, executor, live, stop); },
                "partitions alone need this, training needs more");
            result.made = true;
        }
    } else {
        result.count = graph.partitions;
        of.resize(static_cast<std::size_t>(graph.nodes));
        for (gneiss::node_id v = 0; v < graph.nodes; ++v) of[v] = static_cast<std::uint16_t>(data.rows().of(v));
    }
    (void)how.macro_of(result.count);
    result.of = std::make_shared<const std::vector<std::uint16_t>>(std::move(of));
    return result;
}

void keep_partitions(
    const gneiss::dataset& data, const node_partitions& parts, const std::filesystem::path& checkpoint) {
    (void)gneiss::make_directory(checkpoint);
    gneiss::write_assignment(data, *parts.of, parts.count, "gap", kept_in(checkpoint));
}

} // namespace joestar
