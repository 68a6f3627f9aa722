#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/records.hpp"
#include "common/sampler.hpp"

namespace programs {

/// Replaces `path` by `text` at once: written beside it, synced, renamed; a crash leaves the old or the new.
/// Throws `gneiss::io_error`.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// The text of a file. Throws `gneiss::io_error`.
[[nodiscard]] std::string read_file(const std::filesystem::path& path);

/// The lines of a file as JSON objects. A last line without its line break, which a crash cut short, is left out.
/// Throws `gneiss::error` (errc::corrupt) that names a line which is no object; `gneiss::io_error`.
[[nodiscard]] std::vector<nlohmann::ordered_json> read_json_lines(const std::filesystem::path& path);
/// Adds the object as one line and hands it to the device. Throws `gneiss::io_error`.
void append_json_line(const std::filesystem::path& path, const nlohmann::ordered_json& object);

/// How an existing run directory is met.
enum class existing_run { refuse, resume, replace };

/// The directory of one run: config.toml, metrics.jsonl, timeline.jsonl, run.json,
/// report.html, checkpoint/. Held by one process at a
/// time. Not thread-safe.
class run_directory {
public:
    /// Makes `out`, or the first free `runs/PROGRAM-DATASET-N`. A run that is there is refused (errc::already_exists:
    /// exit 2, naming --resume and --force), gone on with, or emptied; a directory that holds something else is always
    /// refused. `resume` without `out` takes the latest run of that program and dataset; resuming what is not there
    /// starts it.
    ///
    /// Throws `gneiss::error` as told, and when another process holds the run; `gneiss::io_error`.
    static run_directory open(std::string_view program, std::string_view dataset,
        const std::optional<std::filesystem::path>& out, existing_run options);
    /// A run to be read by `eval`, `predict`, `export`. Throws errc::not_found when there is none. Takes no lock.
    static run_directory open_existing(const std::filesystem::path& path);

    run_directory(run_directory&& other) noexcept;
    run_directory& operator=(run_directory&&) = delete;
    ~run_directory();

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    [[nodiscard]] std::filesystem::path checkpoint() const { return path_ / "checkpoint"; }
    [[nodiscard]] std::filesystem::path best() const { return path_ / "best"; }

    /// run.json of a run that was here before, if any.
    [[nodiscard]] std::optional<nlohmann::ordered_json> result() const;
    /// The same when its status is "done": what `--resume` of a finished run prints.
    [[nodiscard]] std::optional<nlohmann::ordered_json> finished_result() const;

    void write_config(std::string_view toml) const { write_file_atomically(path_ / "config.toml", toml); }
    /// Keeps the epochs before `epoch` (from 1) in metrics.jsonl, drops the others, and returns those kept, ascending.
    /// A resumed run calls it with the epoch it repeats or goes on with, so that no epoch is told twice; 1 clears the
    /// file. A last line that a crash cut short is dropped.
    std::vector<epoch_record> keep_metrics_before(std::uint64_t epoch) const;
    /// Adds one line to metrics.jsonl and hands it to the system.
    void append_metrics(const epoch_record& record) const;
    void write_result(const run_record& record) const {
        write_file_atomically(path_ / "run.json", pretty(to_json(record)));
    }
    /// timeline.jsonl: one line a sample, its numbers by the names of `time_sample`.
    void write_timeline(const std::vector<time_sample>& samples) const;
    /// The samples of timeline.jsonl up to `seconds`, which a resumed run goes on from; none without the file, or where it is
    /// damaged: pictures end no run.
    [[nodiscard]] std::vector<time_sample> timeline_before(double seconds) const;
    void write_report(std::string_view html) const { write_file_atomically(path_ / "report.html", html); }

private:
    explicit run_directory(std::filesystem::path path) : path_(std::move(path)) {}
    void lock();

    std::filesystem::path path_;
    int lock_ = -1;
};

} // namespace programs
