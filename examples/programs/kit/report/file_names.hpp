// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace programs {

// Names of files of a run. Those of a dataset's arrays are in its manifest.
inline constexpr const char* config_name = "config.toml";
inline constexpr const char* metrics_name = "metrics.jsonl";
inline constexpr const char* timeline_name = "timeline.jsonl";
inline constexpr const char* result_name = "run.json";
inline constexpr const char* report_name = "report.html";
inline constexpr const char* schedule_name = "schedule.json";
inline constexpr const char* checkpoint_directory = "checkpoint";
inline constexpr const char* best_directory = "best";
inline constexpr const char* checkpoint_name = "checkpoint.bin";
inline constexpr const char* rows_name = "rows.bin"; ///< in `checkpoint/`; rows-N.bin in `best/`
inline constexpr const char* edges_directory = "edges";
inline constexpr const char* graph_directory = "graph";
inline constexpr const char* lists_directory = "lists";
inline constexpr const char* scratch_directory_name = "scratch";
inline constexpr const char* warm_start_directory = "warm-start";
inline constexpr const char* warm_start_name = "warm-start.json";
inline constexpr const char* preprocessing_name = "preprocessing.json";
inline constexpr const char* passes_name = "reuse.json";
inline constexpr const char* embeddings_directory = "embeddings"; ///< of the Python package, as embeddings-FLAGS
inline constexpr const char* neighbor_cache_name = "neighbors.cache";

/// A name that programs give to a file; one '*' in it matches any text.
struct file_name {
    std::string_view pattern;
    std::string_view kind{}; ///< that of the directory with this name; empty: it is a file
};

/// Returns the names in a kind of directory: run, checkpoint, best, dataset, … Precondition: it exists.
[[nodiscard]] std::span<const file_name> files_in(std::string_view kind);

/// Returns true for a name of a file, not of a directory, in a kind of directory. Precondition: the kind exists.
[[nodiscard]] bool names_file(std::string_view kind, std::string_view name);

/// Returns a file or directory in a directory of this kind, at any depth, that none of our programs made: removing the
/// directory would remove it. Other names in the first `kept_levels` levels are left out: they are not removed. So are
/// links, FIFOs and devices at names of ours, and directories in it that are marked as ours. Throws
/// std::filesystem::filesystem_error.
[[nodiscard]] std::optional<std::filesystem::path> foreign_entry(
    const std::filesystem::path& directory, std::string_view kind, int kept_levels);

/// Returns a line KIND TAB PATTERN TAB KIND for each name.
[[nodiscard]] std::string file_list();

} // namespace programs
