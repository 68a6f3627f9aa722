// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/storage/io/plain_file.hpp>

#include "kit/cli/process_sampler.hpp"
#include "kit/report/file_names.hpp"
#include "kit/report/records.hpp"

namespace programs {

/// Replaces `path` by `text` atomically: writes a temporary file, syncs and renames it; a crash leaves the old or the
/// new.
/// Throws `gneiss::io_error`.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Most bytes of a text that is read whole.
inline constexpr std::uint64_t longest_text = std::uint64_t{64} << 20;
/// Returns the text of a regular file. Throws `gneiss::error` (errc::out_of_range) for more than `most` bytes;
/// `gneiss::io_error`.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, std::uint64_t most = longest_text);

/// Parses JSON that a file holds: at most 64 levels deep, no name twice in an object. `path` and `line` are for
/// messages. Throws `gneiss::error` (errc::corrupt).
[[nodiscard]] nlohmann::ordered_json parse_json(
    std::string_view text, const std::filesystem::path& path, std::uint64_t line = 0);
/// The same, for text without which a program can do: returns null if it is invalid or not an object.
[[nodiscard]] nlohmann::ordered_json parse_json_object(std::string_view text);

/// True for a directory with nothing but files NAME.npy, NAME.npy.xxh3, NAME.tsv and NAME.safetensors, for `names`: an
/// export may replace it. Anything else may be a user's.
[[nodiscard]] bool holds_only(const std::filesystem::path& directory, std::initializer_list<std::string_view> names);

/// Returns the lines of a file as JSON objects. Drops a last line without a line break, cut short by a crash. Throws
/// `gneiss::error` (errc::corrupt) that names an invalid line; `gneiss::io_error`.
[[nodiscard]] std::vector<nlohmann::ordered_json> read_json_lines(const std::filesystem::path& path);
/// Appends the object as one line and syncs it. Throws `gneiss::io_error`.
void append_json_line(const std::filesystem::path& path, const nlohmann::ordered_json& object);

/// Returns the command that continues a run.
[[nodiscard]] std::string resume_command(std::string_view program, const std::filesystem::path& run);

/// Treatment of an existing run directory.
enum class existing_run { refuse, resume, replace };

/// The directory of one run: config.toml, metrics.jsonl, timeline.jsonl, run.json, report.html, checkpoint/. Held by
/// one process at a time. Not thread-safe.
class run_directory {
public:
    /// Creates `out`, or the first free `runs/PROGRAM-DATASET-N`. An existing run is refused (errc::already_exists:
    /// exit 2, naming --resume and --force), resumed, or emptied; a directory that is not a run is always refused, and
    /// so is a run with a user's files where they would be removed. `resume` without `out` takes the latest run of that
    /// program and dataset; resuming a missing run starts it.
    ///
    /// Throws `gneiss::error` in the cases above, and if another process holds the run; `gneiss::io_error`.
    static run_directory open(std::string_view program, std::string_view dataset,
        const std::optional<std::filesystem::path>& out, existing_run options);
    /// Returns the directory that `open` resumes: `out`, or the latest run; none: without `out`, there is no run yet.
    [[nodiscard]] static std::optional<std::filesystem::path> latest(
        std::string_view program, std::string_view dataset, const std::optional<std::filesystem::path>& out);
    /// True if `file` is the run at `run`, or in a part of it that `existing_run::replace` removes.
    [[nodiscard]] static bool replaces(const std::filesystem::path& run, const std::filesystem::path& file);
    /// Returns the bytes that `existing_run::replace` frees at `run`.
    [[nodiscard]] static std::uint64_t replaced_bytes(const std::filesystem::path& run);
    /// Opens a run for reading by `eval`, `predict`, `export`. Throws errc::not_found if there is none. Takes no lock.
    static run_directory open_existing(const std::filesystem::path& path);

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::filesystem::path checkpoint() const { return path_ / checkpoint_directory; }
    [[nodiscard]] std::filesystem::path best() const { return path_ / best_directory; }

    /// True if a process of this machine works in the run.
    [[nodiscard]] bool is_held() const;
    /// Returns the time of the last change of metrics.jsonl, report.html or config.toml [s since 1970, UTC].
    [[nodiscard]] std::int64_t last_written() const;

    /// Returns run.json of an earlier run, if any.
    [[nodiscard]] std::optional<nlohmann::ordered_json> result() const;
    /// Returns run.json if its status is "done": `--resume` of a finished run prints it.
    [[nodiscard]] std::optional<nlohmann::ordered_json> finished_result() const;

    void write_config(std::string_view toml) const { write_file_atomically(path_ / config_name, toml); }
    /// Keeps the epochs before `epoch` (from 1) in metrics.jsonl, drops the others, and returns those kept, ascending.
    /// A resumed run calls it with the epoch it repeats or continues, so that no epoch is recorded twice; 1 clears the
    /// file. Drops a last line that a crash cut short.
    std::vector<epoch_record> keep_metrics_before(std::uint64_t epoch) const;
    /// Appends one line to metrics.jsonl and passes it to the system.
    void append_metrics(const epoch_record& record) const;
    void write_result(const run_record& record) const {
        write_file_atomically(path_ / result_name, pretty(to_json(record)));
    }
    /// Writes timeline.jsonl: one line per sample, with the names of `time_sample`.
    void write_timeline(const std::vector<time_sample>& samples) const;
    /// Returns the samples of timeline.jsonl up to `seconds`, from which a resumed run continues; none if the file is
    /// missing or damaged, since plots never end a run.
    [[nodiscard]] std::vector<time_sample> timeline_before(double seconds) const;
    void write_report(std::string_view html) const { write_file_atomically(path_ / report_name, html); }

private:
    explicit run_directory(std::filesystem::path path) : path_(std::move(path)) {}
    void lock();

    std::filesystem::path path_;
    gneiss::plain_file lock_;
};

} // namespace programs
