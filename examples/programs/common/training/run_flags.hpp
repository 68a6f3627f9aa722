#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "common/command_line.hpp"
#include "common/dataset_path.hpp"
#include "common/records.hpp"
#include "common/units.hpp"
#include "common/training/configuration.hpp"
#include "common/training/options.hpp"

namespace trainers {

/// Flags of the commands that read a run: `eval`, `predict`, `export`.
struct run_flags {
    std::filesystem::path run;
    std::optional<programs::byte_size> memory;
    std::uint64_t threads = 0;
    bool json = false;

    void add_to(programs::command& to);
    [[nodiscard]] gneiss::tbb_executor executor() const;
    /// Bytes for all of the program: what was said, else nine tenths of what is free, as in training.
    [[nodiscard]] std::uint64_t memory_bytes() const;
};

/// Flags of `eval`: a split, and how edges are ranked where that is not to be as the run says.
struct eval_flags : run_flags {
    std::string split = "test";
    std::optional<programs::count_or_all> eval_negatives, eval_edges;
    std::optional<double> by_degree;
    std::optional<std::filesystem::path> eval_candidates;

    /// `of` says for people what a split is of.
    void add_to(programs::command& to, const std::string& of);
    [[nodiscard]] bool change_ranking() const { return eval_negatives || eval_edges || by_degree || eval_candidates; }
    /// Writes what was said over the run's. Throws usage_error for candidates that are both given and chosen.
    void change(link_options& options) const;
};

/// What is left of `memory` for the work, after the program and what is charged to `budget`. Throws over_budget.
[[nodiscard]] std::uint64_t memory_left(const gneiss::memory_budget& budget, std::uint64_t memory);

/// The checkpoint in `directory` of a run. Throws errc::not_found when there is none.
[[nodiscard]] gneiss::checkpoint load_trained(const std::filesystem::path& run, const std::filesystem::path& directory);
/// Throws errc::config_mismatch for a run of another program, by what its config.toml begins with.
void refuse_other_program(const std::string& program, const std::filesystem::path& run);
/// Throws errc::config_mismatch when it was trained on another dataset, or with another configuration than `command` holds.
void refuse_another(const std::filesystem::path& run, const gneiss::checkpoint& saved, const gneiss::dataset& data, const programs::command& command);

/// Where a run's rows go that memory does not hold: the folder that training uses; the system's for temporary files where that
/// cannot be written.
[[nodiscard]] std::filesystem::path scratch_of(const std::filesystem::path& run);

/// The metrics of a split, as a table or as JSON. Throws errc::not_found when there are none.
void report_metrics(const std::string& program, const run_flags& flags, const std::string& split,
    const programs::metric_values& metrics, const std::string& what, const std::filesystem::path& dataset);

/// What a run holds, what it was trained on, and by which flags.
template <class Options>
struct trained_run {
    gneiss::checkpoint saved;
    std::unique_ptr<gneiss::dataset> data; ///< that its config.toml names
    Options flags;                         ///< of its config.toml, resolved
};

/// Opens a run for reading: the checkpoint in `directory`, the flags of its config.toml, and its dataset.
/// Throws as `load_trained`, `refuse_other_program` and `refuse_another`; errc::not_found for a dataset that is not where config.toml says; what flags are
/// refused with.
template <class Options>
[[nodiscard]] trained_run<Options> open_trained(const std::string& program, const std::filesystem::path& run, const std::filesystem::path& directory) {
    trained_run<Options> opened{load_trained(run, directory), nullptr, {}};
    refuse_other_program(program, run);
    programs::command_line reader(program, "");
    opened.flags.add_to(reader.add("train", "", {}));
    const std::string config = (run / "config.toml").string();
    std::string ignored;
    reader.parse({"train", "--config", config}, ignored);
    programs::check_dataset(opened.flags.dataset, "; if it was moved, change 'dataset' in " + config);
    opened.data = std::make_unique<gneiss::dataset>(opened.flags.dataset);
    opened.flags = resolve(opened.flags, *opened.data);
    refuse_another(run, opened.saved, *opened.data, configuration<Options>(program, opened.flags).command());
    return opened;
}

/// A text file that is written from its start and durable once closed. Every call throws gneiss::io_error.
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

/// A directory that takes its place whole, and replaces only another export.
class export_directory {
public:
    /// Throws usage_error where something stands that may not be replaced. `marks` are files that an export has.
    export_directory(const std::filesystem::path& out, bool force, std::initializer_list<const char*> marks);
    ~export_directory();
    export_directory(const export_directory&) = delete;
    export_directory& operator=(const export_directory&) = delete;

    /// Makes the directory beside its place, to be written into; what an interrupted export left there goes.
    const std::filesystem::path& begin();
    /// Puts it into its place.
    void finish();
    [[nodiscard]] const std::filesystem::path& path() const noexcept { return out_; }

private:
    std::filesystem::path out_, beside_;
    bool begun_ = false;
};

/// "NAME TAB value TAB value …" to a file.
void write_row(text_file& file, std::string_view name, std::span<const float> row);

} // namespace trainers
