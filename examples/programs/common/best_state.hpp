#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include <gneiss/storage/io/checkpoint.hpp>

#include "common/records.hpp"

namespace programs {

/// Of the state of a run that validated best.
struct best_metrics {
    metric_values valid, test;

    friend bool operator==(const best_metrics&, const best_metrics&) = default;
};

/// Makes the file of a state's rows at a path where none is, synced, and names its slots in the checkpoint.
using row_writer = std::function<void(const std::filesystem::path& path, gneiss::checkpoint& names)>;

/// Makes `state` the best one: the checkpoint at `file`, with its metrics and the name of a file of rows beside it.
///
/// In one step: rows are written under a new name, then the checkpoint that names them replaces the one before, and only then are the
/// rows of that one removed. Whatever fails, and whenever the process ends, `file` is the old or the new state, whole and with its own
/// metrics. Disk: the rows of two states. Throws io_error, and what `write_rows` does.
void keep_best(const std::filesystem::path& file, gneiss::checkpoint state, const best_metrics& metrics, const row_writer& write_rows = {});

/// Of the state at `file`; empty where there is none, or one without them. Throws errc::corrupt.
[[nodiscard]] std::optional<best_metrics> metrics_of_best(const std::filesystem::path& file);

/// The file of rows that a checkpoint in `directory` names, or `otherwise`.
[[nodiscard]] std::filesystem::path rows_of(const gneiss::checkpoint& saved, const std::filesystem::path& directory, const char* otherwise);

} // namespace programs
