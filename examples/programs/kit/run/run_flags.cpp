// SPDX-License-Identifier: Apache-2.0
#include "kit/run/run_flags.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include <fmt/format.h>

#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/cli/command_call.hpp"
#include "kit/cli/config_file.hpp"
#include "kit/cli/machine.hpp"
#include "kit/cli/terminal.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/checkpoint.hpp"
#include "kit/run/refused_plan.hpp"
#include "kit/run/weight_tensors.hpp"

namespace trainers {

void run_flags::add_to(programs::command& to) {
    to.positional("run", run, "run directory made by train");
    to.option("dataset", dataset, "dataset of the run, if it was moved").value_name("DIR").default_text("from the run");
    to.option("memory", memory, "memory budget; exit code 3 if it is too small").default_text("free memory");
    to.option("threads", threads, "worker threads").default_text("all CPUs").range(0, 1024);
    to.option("json", json, "print the result as one JSON object").transient();
}

void eval_flags::add_to(programs::command& to, const std::string& of, const std::vector<std::string>& splits) {
    run_flags::add_to(to);
    to.option("on", split, of).choices(splits).formerly("split");
    to.option("eval-negatives", eval_negatives, "candidates: all (filtered) or N sampled").default_text("the run's");
    to.option("eval-edges", eval_edges, "number of ranked edges").range(1).default_text("the run's");
    to.option("eval-negatives-by-degree", by_degree, "fraction of candidates sampled by degree")
        .range(0, 1)
        .default_text("the run's");
    to.option("eval-candidates", eval_candidates, "file with candidates of each query; {split} stands for --on")
        .value_name("FILE")
        .default_text("the run's");
    to.option("candidates", candidates,
          "nodes that are ranked: all, range (those seen at that end of the relation in training), or a file of names")
        .value_name("all|range|FILE")
        .default_text("the run's");
    to.option("k", k,
          "add recall@k and ndcg@k of the tails of each head, except those already seen; in a bipartite graph among "
          "its tails")
        .range(1, 1e6)
        .value_name("N,N")
        .default_text("none");
}

void eval_flags::change(link_options& options) const {
    for (auto at = k.begin(); at != k.end(); ++at)
        if (std::find(k.begin(), at, *at) != at) throw programs::usage_error(fmt::format("--k names {} twice", *at));
    if (eval_candidates && (eval_negatives || by_degree))
        throw programs::usage_error(
            "--eval-candidates replaces sampled candidates: leave --eval-negatives and --eval-negatives-by-degree out");
    if (eval_candidates) {
        options.eval_candidates = eval_candidates;
        options.eval_edges = programs::count_or_all{.all = true}; // each of them has a list
        options.eval_negatives = programs::count_or_all{.all = true};
        options.candidates = "all";
    } else if (eval_negatives || by_degree || candidates) {
        options.eval_candidates.reset();
    }
    if (eval_negatives) options.eval_negatives = eval_negatives;
    if (candidates) options.candidates = *candidates;
    if (candidates && *candidates != "all" && !eval_negatives && !by_degree)
        options.eval_negatives = programs::count_or_all{.all = true};
    if (eval_edges) options.eval_edges = eval_edges;
    if (by_degree) {
        if (options.eval_negatives && options.eval_negatives->all)
            throw programs::usage_error(
                "--eval-negatives-by-degree is a share of sampled candidates: give their number by --eval-negatives");
        options.eval_negatives_by_degree = *by_degree;
    }
    options.check_ranking();
}

gneiss::tbb_executor run_flags::executor() const {
    return gneiss::tbb_executor(threads != 0 ? threads : programs::usable_cpus());
}

std::uint64_t run_flags::memory_bytes() const { return memory ? memory->bytes : programs::available_memory() * 9 / 10; }

std::uint64_t memory_left(const gneiss::memory_budget& budget, std::uint64_t memory) {
    std::vector<gneiss::memory_need> parts = budget.parts();
    const programs::command_call* const call = programs::command_call::current();
    parts.insert(parts.begin(), {"program", programs::program_memory(call ? call->outside() : programs::memory_use{})});
    std::uint64_t taken = 0;
    for (const gneiss::memory_need& part : parts) taken += part.bytes;
    if (taken >= memory) throw refused_plan(memory, parts, what_helps(parts));
    return memory - taken;
}

void run_state::add_to(nlohmann::ordered_json& to) const {
    to["state"] = name();
    to["epoch"] = epoch;
}

std::string run_state::text() const {
    return fmt::format("{} {} of {}, {}", amid ? "after epoch" : "epoch", epoch, epochs, name());
}

run_state state_of(const std::filesystem::path& run) {
    const bool best = std::filesystem::exists(run / programs::best_directory / checkpoint_name);
    return {.directory = run / (best ? programs::best_directory : programs::checkpoint_directory), .best = best};
}

void count_epochs(run_state& state, const gneiss::resume_position& at, std::uint64_t epochs) {
    state.epoch = at.epoch;
    state.epochs = epochs;
    state.amid = at.next != gneiss::batch_number{};
}

std::string state_warning(const std::filesystem::path& run, const run_state& state) {
    try {
        if (const auto finished = programs::run_directory::open_existing(run).finished_result()) {
            const auto best = finished->find("best_epoch");
            if (state.best || best == finished->end() || !best->is_number_unsigned() || *best >= state.epoch) return "";
            return fmt::format("{}: is missing: it held the best state, of epoch {}; this is the last one, of epoch {}",
                (run / programs::best_directory / checkpoint_name).string(), best->get<std::uint64_t>(), state.epoch);
        }
    } catch (const gneiss::error&) { // NOLINT(bugprone-empty-catch): a damaged record of the result is not needed here
    }
    if (state.epoch == 0 && !state.amid)
        return fmt::format(
            "{}: is untrained: its parameters are those before epoch 1 of {}, and what they predict is arbitrary; "
            "--resume --out {} trains it",
            run.string(), state.epochs, run.string());
    return fmt::format(
        "{}: training has not finished: this is {} state after {}epoch {} of {}; --resume --out {} continues it",
        run.string(), state.best ? "its best" : "the", state.amid ? "some batches of " : "",
        state.epoch + (state.amid ? 1 : 0), state.epochs, run.string());
}

void warn_of_state(const std::filesystem::path& run, const run_state& state) {
    if (const std::string text = state_warning(run, state); !text.empty()) programs::print_warning(text);
}

namespace {

/// Throws errc::not_found unless `path` is a directory with a run's configuration. The message explains the likely
/// mistake.
void check_run(const std::filesystem::path& path) {
    std::error_code failed;
    if (std::filesystem::exists(path / programs::config_name, failed)) return;
    const char* const what = !std::filesystem::exists(path, failed) ? "No such file or directory"
        : !std::filesystem::is_directory(path, failed)              ? "is not a run but a file"
        : std::filesystem::exists(path / "manifest.json", failed)   ? "is a dataset, not a run: train makes runs"
                                                                    : "is not a run: it has no config.toml";
    throw gneiss::error(gneiss::errc::not_found, what, {.path = path});
}

} // namespace

gneiss::checkpoint load_trained(
    const std::filesystem::path& run, const std::filesystem::path& directory, std::uint64_t memory) {
    const std::filesystem::path where = directory / checkpoint_name;
    if (!std::filesystem::exists(where)) {
        check_run(run);
        throw gneiss::error(gneiss::errc::not_found, "has no checkpoint: train it first", {.path = run});
    }
    return gneiss::load_checkpoint(where, memory);
}

void refuse_other_program(const std::string& program, const std::filesystem::path& run) {
    std::istringstream config(programs::read_file(run / programs::config_name, programs::longest_config));
    std::string mark, name;
    config >> mark >> name;
    if (mark == "#" && name.starts_with("gneiss-") && name != program)
        throw gneiss::error(gneiss::errc::config_mismatch, "is a run of " + name + ": use that program", {.path = run});
}

void refuse_another(const std::filesystem::path& run, const gneiss::checkpoint& saved, const gneiss::dataset& data,
    const programs::command& command) {
    if (saved.dataset_hash != dataset_hash(data))
        throw gneiss::error(gneiss::errc::config_mismatch,
            "was trained on another dataset than " + data.directory().string() + ": give its own by --dataset",
            {.path = run});
    if (saved.configuration_hash != configuration_hash(command)) throw_other_config(run);
}

std::filesystem::path scratch_of(const std::filesystem::path& run) {
    const std::filesystem::path of_training = run / programs::checkpoint_directory / programs::scratch_directory_name;
    try {
        (void)gneiss::make_directory(of_training.parent_path());
        (void)gneiss::make_directory(of_training);
        if (::access(of_training.c_str(), W_OK) == 0) return of_training;
    } catch (const std::exception&) { // read-only, or a link
    }
    return std::filesystem::temp_directory_path();
}

void report_metrics(const std::string& program, const run_flags& flags, const run_state& state,
    const std::string& split, const programs::metric_values& metrics, const std::string& what, const std::string& scope,
    const std::filesystem::path& dataset, const nlohmann::ordered_json& per_class) {
    if (metrics.empty())
        throw gneiss::error(gneiss::errc::not_found, "the dataset has no " + split + " " + what, {.path = dataset});
    if (flags.json) {
        nlohmann::ordered_json values;
        for (const auto& [name, value] : metrics) values[name] = value;
        nlohmann::ordered_json result{
            {"program", program}, {"run", flags.run.string()}, {"metrics", {{split, values}}}, {"scope", scope}};
        if (!per_class.is_null()) result["metrics"]["per_class"] = per_class;
        state.add_to(result);
        programs::print_json(result);
    } else {
        programs::table table({{"metric", programs::align::left}, {split}});
        for (const auto& [name, value] : metrics) table.add({name, fmt::format("{:.6g}", value)});
        programs::print_text("{}{}; {}\n", table.str(), scope, state.text());
        if (per_class.is_null()) return;
        std::vector<programs::table::column> columns;
        const std::vector<std::string> keys = programs::keys_of(per_class.at("classes"));
        for (const std::string& key : keys)
            columns.push_back(
                {key, columns.empty() ? programs::align::left : programs::align::right}); // the name first
        programs::table classes(columns);
        for (const auto& one : per_class.at("classes")) {
            std::vector<std::string> cells;
            for (const std::string& key : keys) {
                const nlohmann::ordered_json value = one.value(key, nlohmann::ordered_json(""));
                cells.push_back(value.is_string() ? value.get<std::string>()
                        : value.is_number_float() ? fmt::format("{:.4f}", value.get<double>())
                                                  : value.dump());
            }
            classes.add(cells);
        }
        programs::print_text("\n{}", classes.str());
    }
}

void text_file::write(std::string_view text) {
    waiting_ += text;
    if (waiting_.size() >= std::size_t{1} << 18) flush();
}

void text_file::close() {
    flush();
    file_.sync();
    file_.close();
}

void text_file::flush() {
    file_.write_at(written_, std::as_bytes(std::span(waiting_)));
    written_ += waiting_.size();
    waiting_.clear();
}

export_directory::export_directory(const std::filesystem::path& out, bool force)
    : out_(out),
      beside_(gneiss::hidden_beside(out_, ".new")) {
    if (std::filesystem::exists(out_) && !force)
        throw programs::usage_error(out_.string() + " exists already: choose another --out, or --force to replace it");
    for (const auto& path : {out_, beside_}) // also replaces leftovers of an interrupted export
        if (std::filesystem::exists(path) &&
            !programs::holds_only(path, {"nodes", "relations", "predictions", "classes", "model"}))
            throw programs::usage_error(path.string() + " is not an export: --force replaces exports only");
}

const std::filesystem::path& export_directory::begin() { return begun_.emplace(beside_).path(); }

void export_directory::finish() {
    gneiss::sync_directory(beside_);
    begun_->replace(out_);
}

std::string export_directory::rows_by_name() const {
    const auto has = [&](std::string_view name) { return std::filesystem::exists(out_ / name); };
    const auto path = [&](std::string_view name) { return nlohmann::json((out_ / name).string()).dump(); };
    const auto table = [&](std::string_view name, int names) {
        return fmt::format("pandas.read_csv({}, sep=\"\\t\", header=None, index_col=0, dtype={{{}: str}}, "
                           "keep_default_na=False, quoting=3)",
            path(name), names);
    };
    if (has("predictions.tsv")) return table("predictions.tsv", 0);
    std::string rows;
    if (has(tensors_name))
        rows = fmt::format("safetensors.numpy.load_file({})[\"{}\"]", path(tensors_name),
            has("classes.tsv") ? "predictions" : "nodes");
    else if (has("predictions.npy") || has("nodes.npy"))
        rows = fmt::format("numpy.load({})", path(has("nodes.npy") ? "nodes.npy" : "predictions.npy"));
    else
        return table("nodes.tsv", 0);
    return fmt::format("names = {}[1]\nrows = pandas.DataFrame({}, index=names)", table("nodes.tsv", 1), rows);
}

void write_row(text_file& file, std::string_view name, std::span<const float> row) {
    fmt::memory_buffer text;
    fmt::format_to(std::back_inserter(text), "{}", name);
    for (const float x : row) fmt::format_to(std::back_inserter(text), "\t{}", x);
    text.push_back('\n');
    file.write({text.data(), text.size()});
}

} // namespace trainers
