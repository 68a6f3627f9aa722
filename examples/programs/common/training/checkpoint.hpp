#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "common/command_line.hpp"

namespace trainers {

// What a run's checkpoint directory holds beside edges that were bucketed anew.
inline constexpr const char* rows_name = "rows.bin";
inline constexpr const char* checkpoint_name = "checkpoint.bin";

/// Tells one dataset from another: the hash of its manifest, which lists checksummed arrays and provenance.
[[nodiscard]] std::uint64_t dataset_hash(const gneiss::dataset& data);

/// Tells one configuration from another, as far as results depend on it.
[[nodiscard]] std::uint64_t configuration_hash(const programs::command& command);

/// Throws when the flags would change the result of the run with configuration `before`, which they resume; `names_run`: by --out.
void refuse_changes(const programs::command& command, const nlohmann::ordered_json& before, bool names_run);

/// A checkpoint of a run at `at`, with what tells run and dataset apart from others, and no rows yet.
[[nodiscard]] gneiss::checkpoint begin_checkpoint(
    const programs::command& command, const gneiss::dataset& data, const gneiss::resume_position& at);
/// The epoch that was trained last before `at`.
[[nodiscard]] std::uint64_t last_trained(const gneiss::resume_position& at);

/// Numbers as a checkpoint's section.
[[nodiscard]] std::vector<std::byte> to_bytes(std::span<const float> numbers);
/// A section's numbers. Throws errc::corrupt, naming `what`, when there are more or fewer than `numbers` takes.
void from_bytes(const std::vector<std::byte>& bytes, std::span<float> numbers, std::string_view what);

/// The program's own section, "progress".
void put_progress(gneiss::checkpoint& to, const nlohmann::ordered_json& progress);
/// Throws errc::corrupt for a checkpoint without it.
[[nodiscard]] nlohmann::ordered_json progress_of(const gneiss::checkpoint& saved);

} // namespace trainers
