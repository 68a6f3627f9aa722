// SPDX-License-Identifier: Apache-2.0
#include "kit/run/checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <gneiss/core/checksum.hpp>

#include "kit/cli/config_file.hpp"
#include "kit/report/run_directory.hpp"
#include "kit/run/options.hpp"

namespace trainers {

std::uint64_t dataset_hash(const gneiss::dataset& data) {
    return gneiss::checksum(programs::read_file(data.directory() / "manifest.json"));
}

std::uint64_t configuration_hash(const programs::command& command) { return std::stoull(command.hash(), nullptr, 16); }

namespace {

/// True if a run's config.toml does not have the value of one of these flags in `before`, the configuration of its
/// checkpoint.
bool has_other_values(
    const std::filesystem::path& run, const std::vector<std::string>& flags, const nlohmann::ordered_json& before) {
    const std::filesystem::path file = run / programs::config_name;
    if (!std::filesystem::exists(file)) return false;
    const auto items = programs::read_toml(file);
    return std::ranges::any_of(flags, [&](const std::string& name) {
        if (!before.contains(name)) return false;
        const auto trained = programs::parse_toml(programs::to_toml({{name, before.at(name)}}), file);
        const auto found = std::ranges::find(items, name, &programs::config_item::key);
        return trained.empty() ? found != items.end() : found == items.end() || found->values != trained[0].values;
    });
}

} // namespace

void refuse_changes(const programs::command& command, const nlohmann::ordered_json& before,
    const std::optional<std::filesystem::path>& run) {
    const auto changed = command.differences(before);
    if (changed.empty()) return;
    if (run && has_other_values(*run, command.changed(before), before)) throw_other_config(*run);
    throw gneiss::error(gneiss::errc::config_mismatch,
        fmt::format("--resume with another configuration: {}; {}", fmt::join(changed, "; "),
            run ? "leave that out, or train with another --out" : "--resume --out RUN takes the flags of that run"));
}

void throw_other_config(const std::filesystem::path& run) {
    throw gneiss::error(gneiss::errc::config_mismatch,
        "is not the configuration that the checkpoint was trained with: restore the file, or train with another --out",
        {.path = run / programs::config_name});
}

gneiss::checkpoint begin_checkpoint(
    const programs::command& command, const gneiss::dataset& data, const gneiss::resume_position& at) {
    return {.generation = 0,
        .configuration_hash = configuration_hash(command),
        .dataset_hash = dataset_hash(data),
        .layout = {},
        .partitioning = {.nodes = 0, .partitions = 0},
        .disk_slots = {},
        .slots = {},
        .row_checksums = {},
        .position = at,
        .sections = {}};
}

std::uint64_t last_trained(const gneiss::resume_position& at) {
    return at.epoch - (at.next == gneiss::batch_number{} && at.epoch != 0 ? 1 : 0);
}

std::vector<std::byte> to_bytes(std::span<const float> numbers) {
    const auto bytes = std::as_bytes(numbers);
    return {bytes.begin(), bytes.end()};
}

void from_bytes(const std::vector<std::byte>& bytes, std::span<float> numbers, std::string_view what) {
    if (bytes.size() != numbers.size_bytes())
        throw gneiss::error(gneiss::errc::corrupt, fmt::format("the checkpoint's {} have another size", what));
    if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
}

void put_progress(gneiss::checkpoint& to, const nlohmann::ordered_json& progress) {
    to.put_text("progress", programs::compact(progress));
}

nlohmann::ordered_json progress_of(const gneiss::checkpoint& saved) {
    nlohmann::ordered_json read;
    if (const auto text = saved.text("progress")) read = programs::parse_json_object(*text);
    const auto config = read.find("config");
    if (config == read.end() || !config->is_object() || !read.contains("steps") ||
        !read.at("steps").is_number_unsigned())
        throw gneiss::error(gneiss::errc::corrupt, "the checkpoint has no training progress");
    return read;
}

} // namespace trainers
