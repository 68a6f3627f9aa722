// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/importer.hpp>
#include <gneiss/io/manifest.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "commands.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/phase_progress.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/file_names.hpp"
#include "kit/report/records.hpp"

namespace data_tool {

void common_flags::add_to(programs::command& to) {
    to.group("Resources and output");
    to.option("memory", memory, "memory budget").default_text("half of the free memory, at most 4GiB");
    to.option("threads", threads, "worker threads").default_text("all CPUs").range(1, 1024);
    to.option("seed", seed, "random seed");
    to.option("json", json, "print the result as one JSON object").transient();
    to.option("force", force, "replace existing output at --out").transient();
    to.option("quiet", quiet, "no progress, and no summary of an imported dataset").transient();
}

std::uint64_t common_flags::memory_bytes() const {
    if (memory) return memory->bytes;
    return std::min(programs::available_memory() / 2, std::uint64_t{4} << 30);
}

unsigned common_flags::thread_count() const {
    return threads != 0 ? programs::narrow<unsigned>(threads, "threads") : programs::usable_cpus();
}

void output_flags::add_to(programs::command& to) {
    to.option("out", out, "directory of the new dataset").value_name("DATASET").required();
    to.option("partitions", partitions, "partitions of the nodes; edges are in N x N buckets")
        .default_text("from size and memory")
        .range(1, 16384);
    to.option("task", task, "purpose of the dataset: link prediction or node classification")
        .choices({"link", "node"})
        .default_text("node with labels, else link");
}

std::optional<gneiss::dataset_task> output_flags::chosen_task() const {
    if (!task) return std::nullopt;
    return *task == "node" ? gneiss::dataset_task::node : gneiss::dataset_task::link;
}

void feature_flags::add_to(programs::command& to) {
    to.option("feature-type", feature_type, "type of stored dense features")
        .choices({gneiss::feature_type_names.begin(), gneiss::feature_type_names.end()})
        .default_text("f16 for arrays of f16, else f32");
    to.option("project", project, "project features to N dense columns by seeded random signs")
        .default_text("no projection")
        .range(1, 1 << 20);
}

void feature_flags::apply(gneiss::import_node_attributes& data) const {
    if (feature_type) data.feature_type = gneiss::parse_feature_type(*feature_type);
    data.project = project;
}

std::array<double, 3> parse_fractions(const std::vector<double>& values) {
    if (values.size() != 3)
        throw programs::usage_error("--fractions takes three numbers: train,valid,test, such as .9,.05,.05");
    const std::array f{values[0], values[1], values[2]};
    if (!(f[0] >= 0 && f[1] >= 0 && f[2] >= 0) || f[0] + f[1] + f[2] < 0.999999 || f[0] + f[1] + f[2] > 1.000001)
        throw programs::usage_error("--fractions must be at least 0 and add up to 1");
    return f;
}

namespace {

/// True for a directory of adjacency files, or an unfinished one.
bool holds_lists(const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    std::string_view side = name;
    if (!side.starts_with(programs::lists_prefix) ||
        !std::filesystem::is_directory(std::filesystem::symlink_status(path)))
        return false;
    side.remove_prefix(programs::lists_prefix.size());
    if (side == "in.partial" || side == "out.partial") return gneiss::is_marked(path);
    if (side != "in" && side != "out") return false;
    return !programs::foreign_entry(path, "adjacency", 0);
}

/// Returns a file or directory in a dataset's directory that none of our programs put there; files named like arrays
/// are the dataset's if its manifest cannot be read.
std::optional<std::filesystem::path> foreign_file(const std::filesystem::path& dataset) {
    std::vector<std::string> arrays;
    bool readable = true;
    try {
        for (const gneiss::dataset_array& array : gneiss::read_manifest(dataset / "manifest.json").arrays)
            arrays.push_back(array.name);
    } catch (const std::exception&) {
        readable = false;
    }
    std::error_code failed;
    for (std::filesystem::directory_iterator at(dataset, failed);
        !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
        const std::string name = at->path().filename().string();
        if (holds_lists(at->path())) continue;
        if (at->symlink_status().type() == std::filesystem::file_type::directory)
            return at->path(); // also one named like an array
        if (!programs::names_file("dataset", name)) return at->path();
        std::string_view array = name;
        if (array.ends_with(".xxh3")) array.remove_suffix(5);
        if (readable && array.ends_with(".npy") &&
            std::ranges::find(arrays, array.substr(0, array.size() - 4)) == arrays.end())
            return at->path();
    }
    return std::nullopt;
}

} // namespace

bool is_inside(const std::filesystem::path& path, const std::filesystem::path& directory) {
    const std::filesystem::path inside =
        std::filesystem::weakly_canonical(path).lexically_relative(std::filesystem::weakly_canonical(directory));
    return !inside.empty() && *inside.begin() != "..";
}

void check_output(
    const output_flags& output, const common_flags& common, const std::vector<std::filesystem::path>& inputs) {
    std::error_code failed;
    if (!std::filesystem::exists(output.out, failed)) return;
    if (!common.force)
        throw programs::usage_error(
            output.out.string() + " exists already: choose another --out, or --force to replace it");
    if (!std::filesystem::exists(output.out / "manifest.json", failed))
        throw programs::usage_error(output.out.string() + " is not a dataset: --force replaces datasets only");
    for (const std::filesystem::path& input : inputs) {
        if (is_inside(input, output.out))
            throw programs::usage_error(
                fmt::format("--force would remove {}, which this command reads: choose another --out", input.string()));
    }
    if (const auto other = foreign_file(output.out))
        throw programs::usage_error(
            fmt::format("--force would remove {}, which is not part of the dataset: move it, or choose another --out",
                other->string()));
}

void check_file_out(const std::filesystem::path& out, const common_flags& common) {
    std::error_code failed;
    if (!common.force && std::filesystem::exists(out, failed))
        throw programs::usage_error(out.string() + " exists already: choose another --out, or --force to replace it");
}

std::string provenance_of(const programs::command& command) {
    static constexpr std::string_view left_out[] = {"memory", "threads", "out"};
    std::istringstream lines(command.to_toml());
    std::string kept;
    for (std::string line; std::getline(lines, line);)
        if (!line.empty() && line[0] != '#' &&
            std::ranges::find(left_out, std::string_view(line).substr(0, line.find(' '))) == std::end(left_out))
            kept += line + "\n";
    return kept;
}

namespace {

/// Returns the items of a phase and the edges so far, for display after its name.
std::string details_of(const gneiss::import_progress& at) {
    const auto count = [](std::uint64_t of) { return programs::human_count(static_cast<double>(of)); };
    std::string text;
    if (at.total != 0) text = fmt::format("  {} of {} {}", count(at.done), count(at.total), at.unit);
    if (at.edges != 0 && at.unit != "edges" && at.unit != "ids")
        text += fmt::format("  {} {}", count(at.edges), at.unit == "nodes" ? "nodes" : "edges");
    return text;
}

} // namespace

void make_or_replace(const std::filesystem::path& out, const std::function<void(const std::filesystem::path&)>& make) {
    std::error_code ignored;
    if (!std::filesystem::exists(out, ignored)) return make(out);
    const gneiss::unfinished_directory beside(gneiss::hidden_beside(out, ".new"));
    const std::filesystem::path made = beside.path() / "made";
    make(made);
    gneiss::replace_directory(made, out);
}

programs::exit_code run_import(gneiss::import_options options, const output_flags& output, const common_flags& common,
    std::uint64_t source_memory) {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds_since = [](auto when) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - when).count();
    };
    options.out = output.out;
    options.partitions = output.partitions;
    options.task = output.chosen_task();
    constexpr std::uint64_t base = program_bytes, least = std::uint64_t{16} << 20;
    if (common.memory_bytes() < base + least + source_memory) {
        std::vector<gneiss::memory_need> parts{{"program", base}, {"least buffers of an import", least}};
        if (source_memory != 0) parts.push_back({"data of the source", source_memory});
        throw gneiss::over_budget(common.memory_bytes(), parts);
    }
    options.memory = common.memory_bytes() - base - source_memory;
    options.seed = common.seed;
    options.force = common.force;
    const programs::interrupt_guard interrupts;
    options.stop = interrupts.token();
    programs::progress live(common.quiet);
    programs::phase_progress phases(live);
    options.progress = [&](const gneiss::import_progress& at) {
        phases(at.phase, at.done, at.total, [&] { return details_of(at); });
    };
    const gneiss::tbb_executor executor(common.thread_count());
    gneiss::import_report created;
    try {
        created = gneiss::import_dataset(options, executor);
    } catch (const gneiss::bad_lines_error& wrong) {
        live.clear();
        for (const std::string& line : wrong.lines()) programs::print_note("wrong: " + line);
        throw;
    }
    live.clear();
    if (created.resumed) live.say("resumed after the last phase that an earlier run finished");
    if (created.skipped != 0)
        live.say(fmt::format("skipped {} wrong lines, listed in {}", created.skipped,
            (output.out / gneiss::importing::skipped_name).string()));
    if (created.comments != 0) live.say(fmt::format("lines skipped as comments: {}", created.comments));
    if (created.duplicates != 0) live.say(fmt::format("{} repeated edges were left out", created.duplicates));
    if (created.moved != 0)
        live.say(
            fmt::format("{} valid and test edges name a node or relation that no training edge has: moved to train",
                created.moved));
    else if (created.unseen != 0)
        live.warn(fmt::format("{} valid and test edges name a node or relation that no training edge has; they are "
                              "kept, but no model can learn them; --unseen-to-train moves them to train",
            created.unseen));
    for (const auto& [file, columns] : created.columns) live.say(fmt::format("{}: {}", file.string(), columns));
    for (const std::string& warning : created.warnings) live.warn(warning);
    for (const auto& [file, line] : created.header_like)
        live.warn(fmt::format("{}: the first line, \"{}\", looks like a header and was read as an edge; if it is one, "
                              "import with --header",
            file.string(), line));
    if (created.unlabeled_tests != 0)
        live.warn(fmt::format("{} test nodes have no label and are not in the split", created.unlabeled_tests));
    const double seconds = seconds_since(start);
    const gneiss::dataset_node_attributes& data = created.node_attributes;
    if (common.json) {
        nlohmann::ordered_json result{{"seconds", seconds}, {"peak_rss_bytes", programs::peak_rss()},
            {"nodes", created.nodes}, {"edges", created.edges}, {"relations", created.relations},
            {"train_edges", created.train_edges}, {"valid_edges", created.valid_edges},
            {"test_edges", created.test_edges}, {"partitions", created.partitions}, {"unseen_edges", created.unseen},
            {"moved_edges", created.moved}, {"resumed", created.resumed}, {"memory_bytes", common.memory_bytes()},
            {"threads", common.thread_count()}, {"dataset", output.out.string()}};
        if (data.features != 0) result["features"] = data.features;
        if (data.classes != 0)
            result.update({{"node_task", std::string(to_string(data.target))}, {"classes", data.classes}});
        if (data.train != 0)
            result.update({{"train_nodes", data.train}, {"valid_nodes", data.valid}, {"test_nodes", data.test}});
        if (created.comments != 0) result["comment_lines"] = created.comments;
        if (created.skipped != 0) result["skipped_lines"] = created.skipped;
        if (created.duplicates != 0) result["duplicate_edges"] = created.duplicates;
        for (const auto& [file, columns] : created.columns) result["columns"][file.string()] = columns;
        programs::print_json_line(std::move(result));
    } else if (!common.quiet) {
        programs::print_text("{}: {} nodes, {} edges ({} train, {} valid, {} test), {} relation{}, {} partitions\n",
            output.out.string(), created.nodes, created.edges, created.train_edges, created.valid_edges,
            created.test_edges, created.relations, created.relations == 1 ? "" : "s", created.partitions);
        if (data.features != 0 || data.classes != 0)
            programs::print_text("{} features, {} {}; nodes: {} train, {} valid, {} test\n", data.features,
                data.classes, data.target == gneiss::node_target_kind::regression ? "targets" : "classes", data.train,
                data.valid, data.test);
        programs::print_text("{} ({}), peak RSS {}\n", programs::human_seconds(seconds),
            programs::human_rate(static_cast<double>(created.edges) / seconds, "edges"),
            gneiss::format_bytes(programs::peak_rss()));
    }
    return programs::exit_code::done;
}

void add_commands(programs::command_line& to) {
    add_import(to);
    add_get(to);
    add_generate(to);
    add_expand(to);
    add_partition(to);
    add_hubs(to);
    add_reorder(to);
    add_convert(to);
    add_sample(to);
    add_inspect(to);
    add_verify(to);
    add_export(to);
    add_doctor(to);
    add_plan(to);
}

} // namespace data_tool
