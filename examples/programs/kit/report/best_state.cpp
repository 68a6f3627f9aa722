// SPDX-License-Identifier: Apache-2.0
#include "kit/report/best_state.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "kit/report/run_directory.hpp"

namespace programs {
namespace {

namespace fs = std::filesystem;

constexpr const char* metrics_section = "metrics";
constexpr const char* rows_section = "rows";
constexpr std::string_view rows_prefix = "rows-";

/// Returns the number of a file of rows: N of rows-N.bin, 0 of rows.bin and rows.new of earlier versions; none for
/// other names.
std::optional<std::uint64_t> number_of(const fs::path& path) {
    const std::string name = path.filename().string();
    if (name == rows_name || name == "rows.new") return 0;
    if (!name.starts_with(rows_prefix) || path.extension() != ".bin") return std::nullopt;
    const char* const end = name.data() + name.size() - std::string_view(".bin").size();
    std::uint64_t number = 0;
    const auto read = std::from_chars(name.data() + rows_prefix.size(), end, number);
    return read.ec == std::errc{} && read.ptr == end ? std::optional(number) : std::nullopt;
}
std::vector<fs::path> row_files(const fs::path& directory) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory))
        if (number_of(entry.path())) found.push_back(entry.path());
    return found;
}
/// Returns a name after all existing ones.
std::string new_rows(const fs::path& directory) {
    std::uint64_t last = 0;
    for (const fs::path& path : row_files(directory)) last = std::max(last, *number_of(path));
    return std::string(rows_prefix) + std::to_string(last + 1) + ".bin";
}

nlohmann::ordered_json to_json(const metric_values& values) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : values) object[name] = value;
    return object;
}

} // namespace

void keep_best(
    const fs::path& file, gneiss::checkpoint state, const best_metrics& metrics, const row_writer& write_rows) {
    const fs::path directory = file.parent_path();
    (void)gneiss::make_directory(directory);
    nlohmann::ordered_json written{{"valid", to_json(metrics.valid)}, {"test", to_json(metrics.test)}};
    if (!metrics.per_class.is_null()) written["per_class"] = metrics.per_class;
    state.put_text(metrics_section, written.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    std::string rows;
    if (write_rows) {
        rows = new_rows(directory);
        state.put_text(rows_section, rows);
    }
    std::error_code ignored;
    try {
        if (write_rows) {
            write_rows(directory / rows, state);
            gneiss::sync_directory(directory);
        }
        gneiss::save_checkpoint(file, state);
    } catch (...) {
        // The switch may have taken place even if syncing its directory failed: rows that are named stay.
        if (!rows.empty() &&
            (!fs::exists(file, ignored) ||
                rows_of(gneiss::load_checkpoint(file), directory, rows_name).filename() != rows))
            fs::remove(directory / rows, ignored);
        throw;
    }
    for (const fs::path& old : row_files(directory))
        if (old.filename() != rows) fs::remove(old, ignored);
}

std::optional<kept_state> best_state_in(const fs::path& file, std::uint64_t memory) {
    if (!fs::exists(file)) return std::nullopt;
    const gneiss::checkpoint saved = gneiss::load_checkpoint(file, memory);
    const auto text = saved.text(metrics_section);
    if (!text) return std::nullopt;
    const nlohmann::ordered_json read = parse_json_object(*text);
    best_metrics metrics;
    try {
        for (const auto& [name, value] : read.at("valid").items())
            metrics.valid.emplace_back(name, value.get<double>());
        for (const auto& [name, value] : read.at("test").items()) metrics.test.emplace_back(name, value.get<double>());
        if (const auto found = read.find("per_class"); found != read.end()) metrics.per_class = *found;
    } catch (const nlohmann::json::exception&) {
        throw gneiss::error(gneiss::errc::corrupt, "has invalid metrics", {.path = file});
    }
    return kept_state{saved.position.epoch, std::move(metrics)};
}

fs::path rows_of(const gneiss::checkpoint& saved, const fs::path& directory, const char* otherwise) {
    const std::string name(saved.text(rows_section).value_or(otherwise));
    if (fs::path(name).filename() != name || !number_of(name)) // it cannot name a file of another directory
        throw gneiss::error(gneiss::errc::corrupt, "names no file of rows", {.path = directory / checkpoint_name});
    return directory / name;
}

} // namespace programs
