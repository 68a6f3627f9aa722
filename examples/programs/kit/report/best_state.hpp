// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/report/records.hpp"

namespace programs {

/// Metrics of the state of a run with the best validation.
struct best_metrics {
    metric_values valid;                ///< by which it was compared
    metric_values test;                 ///< empty: it was not tested yet
    nlohmann::ordered_json per_class{}; ///< as in `run_record`

    friend bool operator==(const best_metrics&, const best_metrics&) = default;
};

/// Writes and syncs the file of a state's rows at a new path, and records its slots in the checkpoint.
using row_writer = std::function<void(const std::filesystem::path& path, gneiss::checkpoint& names)>;

/// Makes `state` the best one: the checkpoint at `file`, with its metrics and the name of a row file next to it.
///
/// Atomic: rows are written under a new name, then the checkpoint that names them replaces the previous one, and only
/// then are the previous rows removed. After any failure or crash, `file` is the old or the new state, complete and
/// with its own metrics. Disk: the rows of two states. Throws io_error, and what `write_rows` throws.
void keep_best(const std::filesystem::path& file, gneiss::checkpoint state, const best_metrics& metrics,
    const row_writer& write_rows = {});

/// A state that was kept, with the epoch after which it was.
struct kept_state {
    std::uint64_t epoch = 0; ///< from 1
    best_metrics metrics{};

    friend bool operator==(const kept_state&, const kept_state&) = default;
};
/// Returns the state at `file`; empty if there is none or it has no metrics. Throws errc::corrupt; over_budget if it
/// exceeds `memory` bytes.
[[nodiscard]] std::optional<kept_state> best_state_in(const std::filesystem::path& file, std::uint64_t memory);

/// Returns the row file that a checkpoint in `directory` names, or `otherwise`.
[[nodiscard]] std::filesystem::path rows_of(
    const gneiss::checkpoint& saved, const std::filesystem::path& directory, const char* otherwise);

} // namespace programs
