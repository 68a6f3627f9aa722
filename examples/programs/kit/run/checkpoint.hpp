// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/cli/command_line.hpp"
#include "kit/report/file_names.hpp"

namespace trainers {

using programs::checkpoint_name;
using programs::rows_name;

/// Returns a hash that identifies a dataset: that of its manifest, which lists checksummed arrays and provenance.
[[nodiscard]] std::uint64_t dataset_hash(const gneiss::dataset& data);

/// Returns a hash that identifies a configuration, as far as results depend on it.
[[nodiscard]] std::uint64_t configuration_hash(const programs::command& command);

/// Throws errc::config_mismatch if the flags would change the result of the run with configuration `before`, which they
/// resume.
/// \param run  named by --out, whose config.toml gave the flags that are left out; none: not named
void refuse_changes(const programs::command& command, const nlohmann::ordered_json& before,
    const std::optional<std::filesystem::path>& run);
/// Throws errc::config_mismatch: the config.toml of a run is not that of its checkpoint.
[[noreturn]] void throw_other_config(const std::filesystem::path& run);

/// Returns a checkpoint of a run at `at`, with hashes of configuration and dataset, and without embeddings.
[[nodiscard]] gneiss::checkpoint begin_checkpoint(
    const programs::command& command, const gneiss::dataset& data, const gneiss::resume_position& at);
/// Returns the last epoch trained before `at`.
[[nodiscard]] std::uint64_t last_trained(const gneiss::resume_position& at);

/// Returns floats as a checkpoint's section.
[[nodiscard]] std::vector<std::byte> to_bytes(std::span<const float> numbers);
/// Reads a section into `numbers`. Throws errc::corrupt, naming `what`, if the sizes differ.
void from_bytes(const std::vector<std::byte>& bytes, std::span<float> numbers, std::string_view what);

/// Writes the program's own section, "progress".
void put_progress(gneiss::checkpoint& to, const nlohmann::ordered_json& progress);
/// Reads the section "progress". Throws errc::corrupt if it is missing.
[[nodiscard]] nlohmann::ordered_json progress_of(const gneiss::checkpoint& saved);
/// Returns read(progress) of the checkpoint in the run `run`. Throws errc::corrupt if the section is missing, or lacks
/// a value that `read` takes, or has it in another form.
template <class Read>
[[nodiscard]] auto read_progress(const gneiss::checkpoint& saved, const std::filesystem::path& run, Read&& read) {
    const nlohmann::ordered_json progress = progress_of(saved);
    try {
        return read(progress);
    } catch (const nlohmann::json::exception&) {
        throw gneiss::error(gneiss::errc::corrupt,
            "its checkpoint holds progress of another form than trainers write: train with another --out",
            {.path = run});
    }
}

} // namespace trainers
