// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/model/input_columns.hpp>
#include <gneiss/model/layer_options.hpp>
#include <gneiss/model/layer_schedule.hpp>
#include <gneiss/train/schedule_timer.hpp>

namespace trainers {

/// The network that a schedule is for.
struct scheduled_network {
    std::span<const gneiss::layer_options> layers; ///< as given
    gneiss::input_columns in;                      ///< columns of the first layer
};

/// A schedule as it was measured.
struct schedule_measurement {
    gneiss::schedule_choice choice;
    std::uint64_t batches = 0;              ///< timed; 0: there was nothing to choose
    std::vector<gneiss::hop_sizes> sizes{}; ///< of the first batch
    std::uint64_t threads = 1;
};

/// Returns the JSON form: {"program", "version", "device", "cpu", "threads", "layers": [{"kind", "columns", "width",
/// "heads", "product"}, …], "batches", "batch": [{"sources", "targets", "edges"}, …], "timed": [{"products",
/// "seconds"}, …]}.
[[nodiscard]] nlohmann::ordered_json to_json(
    const schedule_measurement& of, const scheduled_network& network, std::string_view program);

/// Returns the schedule in such an object, read from `file`. Throws errors that name the file and the field:
/// errc::version_mismatch for another version of the programs, unless the object is of the `same_run`;
/// errc::config_mismatch for another device or other layers; errc::invalid_format for a missing or unusable field.
[[nodiscard]] gneiss::layer_schedule schedule_of(const nlohmann::ordered_json& object, const scheduled_network& network,
    const std::filesystem::path& file, bool same_run = false);
/// Reads a file, and checks it by `schedule_of`. Throws errc::corrupt for broken JSON; io_error.
[[nodiscard]] nlohmann::ordered_json read_schedule(
    const std::filesystem::path& file, const scheduled_network& network, bool same_run = false);

/// Returns "sage first, gcn last: 1.21 ms a batch, 1.43 ms as given"; without times, the orders alone.
[[nodiscard]] std::string text_of_schedule(const nlohmann::ordered_json& object);

} // namespace trainers
