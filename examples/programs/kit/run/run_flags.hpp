// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/directory_lock.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/cli/dataset_path.hpp"
#include "kit/cli/units.hpp"
#include "kit/report/records.hpp"
#include "kit/run/configuration.hpp"
#include "kit/run/options.hpp"

namespace trainers {

/// Flags of the commands that read a run: `eval`, `predict`, `export`.
struct run_flags {
    std::filesystem::path run;
    std::optional<std::filesystem::path> dataset; ///< in place of the one in config.toml
    std::optional<programs::byte_size> memory;
    std::uint64_t threads = 0;
    bool json = false;

    void add_to(programs::command& to);
    [[nodiscard]] gneiss::tbb_executor executor() const;
    /// Returns the memory of the whole program [bytes]: as given, else nine tenths of the free memory, as in training.
    [[nodiscard]] std::uint64_t memory_bytes() const;
};

/// Flags of `eval`: a split, and how edges are ranked if not as in the run.
struct eval_flags : run_flags {
    std::string split = "test";
    std::optional<programs::count_or_all> eval_negatives, eval_edges;
    std::optional<double> by_degree;
    std::optional<std::filesystem::path> eval_candidates;
    std::optional<std::string> candidates;
    std::vector<std::uint64_t> k; ///< cutoffs of recall and NDCG

    /// Adds the flags; `of` is the help's text for --on, `splits` its values.
    void add_to(
        programs::command& to, const std::string& of, const std::vector<std::string>& splits = {"valid", "test"});
    [[nodiscard]] bool change_ranking() const {
        return eval_negatives || eval_edges || by_degree || eval_candidates || candidates || !k.empty();
    }
    /// Overrides the run's options by the given ones. Throws usage_error for candidates that are both given and
    /// sampled.
    void change(link_options& options) const;
};

/// Returns the part of `memory` left for the work, after the program and the charges of `budget`. Throws over_budget.
[[nodiscard]] std::uint64_t memory_left(const gneiss::memory_budget& budget, std::uint64_t memory);

/// The state of a run that a command reads: the best by validation if one was kept, else the last.
struct run_state {
    std::filesystem::path directory{}; ///< of its checkpoint
    bool best = false;
    std::uint64_t epoch = 0, epochs = 0; ///< trained epochs, and those that the run plans
    bool amid = false;                   ///< true after some batches of the next epoch

    [[nodiscard]] const char* name() const noexcept { return best ? "best" : "last"; }
    /// Adds "state" and "epoch".
    void add_to(nlohmann::ordered_json& to) const;
    /// Returns "epoch 8 of 40, best".
    [[nodiscard]] std::string text() const;
};
/// Returns the place of a run's state.
[[nodiscard]] run_state state_of(const std::filesystem::path& run);
/// Sets the epochs of a state by its checkpoint.
void count_epochs(run_state& state, const gneiss::resume_position& at, std::uint64_t epochs);
/// Returns a warning if the run has not finished training, of its state, or that it is untrained; or if it kept a best
/// state whose file is missing. Else an empty text.
[[nodiscard]] std::string state_warning(const std::filesystem::path& run, const run_state& state);
/// Prints that warning, if there is one.
void warn_of_state(const std::filesystem::path& run, const run_state& state);

/// Loads the checkpoint in `directory` of a run. Throws errc::not_found if there is none, or no run; over_budget if it
/// exceeds `memory` bytes.
[[nodiscard]] gneiss::checkpoint load_trained(
    const std::filesystem::path& run, const std::filesystem::path& directory, std::uint64_t memory);
/// Throws errc::config_mismatch for a run of another program, by the first line of its config.toml.
void refuse_other_program(const std::string& program, const std::filesystem::path& run);
/// Throws errc::config_mismatch if the run was trained on another dataset, or with another configuration than `command`
/// holds.
void refuse_another(const std::filesystem::path& run, const gneiss::checkpoint& saved, const gneiss::dataset& data,
    const programs::command& command);

/// Returns a run's directory for rows that exceed memory: that of training; the system's temporary directory if it is
/// not writable.
[[nodiscard]] std::filesystem::path scratch_of(const std::filesystem::path& run);

/// Prints the metrics of a split with their scope, what they are means over, and by class if there are some, as tables
/// or as JSON. Throws errc::not_found if there are none.
void report_metrics(const std::string& program, const run_flags& flags, const run_state& state,
    const std::string& split, const programs::metric_values& metrics, const std::string& what, const std::string& scope,
    const std::filesystem::path& dataset, const nlohmann::ordered_json& per_class = nullptr);

/// A run, its dataset, and its flags.
template <class Options>
struct trained_run {
    gneiss::checkpoint saved;
    std::unique_ptr<gneiss::dataset> data; ///< named in its config.toml
    Options flags;                         ///< from its config.toml, resolved
    run_state state;
};

/// Opens a run for reading: the checkpoint of its best state, or of the last one if none was kept, the flags of its
/// config.toml, and its dataset, which `moved` names if it is elsewhere now. Throws as `load_trained`,
/// `refuse_other_program` and `refuse_another`; errc::not_found if the dataset is missing; errors of flags.
template <class Options>
[[nodiscard]] trained_run<Options> open_trained(const std::string& program, const std::filesystem::path& run,
    const std::optional<std::filesystem::path>& moved, std::uint64_t memory) {
    run_state state = state_of(run);
    trained_run<Options> opened{load_trained(run, state.directory, memory), nullptr, {}, std::move(state)};
    refuse_other_program(program, run);
    programs::command_line reader(program, "");
    opened.flags.add_to(reader.add("train", "", {}));
    const std::string config = (run / programs::config_name).string();
    std::string ignored;
    reader.parse({"train", "--config", config}, ignored);
    if (moved) opened.flags.dataset = *moved;
    programs::check_dataset(opened.flags.dataset,
        moved ? "" : "; it is the dataset of " + run.string() + ": if it was moved, --dataset names it");
    opened.data = std::make_unique<gneiss::dataset>(opened.flags.dataset);
    opened.flags = resolve(opened.flags, *opened.data);
    refuse_another(run, opened.saved, *opened.data, configuration<Options>(program, opened.flags).command());
    count_epochs(opened.state, opened.saved.position, *opened.flags.epochs);
    return opened;
}

/// A text file, written from its start and durable once closed. Every call throws gneiss::io_error.
class text_file {
public:
    explicit text_file(const std::filesystem::path& path) : file_(gneiss::plain_file::create(path)) {}

    void write(std::string_view text);
    void close();

private:
    void flush();

    gneiss::plain_file file_;
    std::uint64_t written_ = 0;
    std::string waiting_;
};

/// An output directory that appears atomically, and replaces only another export.
class export_directory {
public:
    /// Throws usage_error if `out` exists and may not be replaced.
    export_directory(const std::filesystem::path& out, bool force);

    /// Creates a temporary directory next to `out` for writing; removes leftovers of an interrupted export. Throws
    /// errc::already_exists while another process writes there.
    const std::filesystem::path& begin();
    /// Renames the directory to `out`.
    void finish();
    /// Returns the lines of pandas that read the finished export with the names of its rows: a name "NA" stays a text,
    /// and quotes are kept.
    [[nodiscard]] std::string rows_by_name() const;
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return out_; }

private:
    std::filesystem::path out_, beside_;
    std::optional<gneiss::unfinished_directory> begun_;
};

/// Writes "NAME TAB value TAB value …" to a file.
void write_row(text_file& file, std::string_view name, std::span<const float> row);

} // namespace trainers
