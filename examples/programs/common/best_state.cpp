// SPDX-License-Identifier: Apache-2.0
#include "common/best_state.hpp"

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

namespace programs {
namespace {

namespace fs = std::filesystem;

constexpr const char* metrics_section = "metrics";
constexpr const char* rows_section = "rows";
constexpr std::string_view rows_prefix = "rows"; // row files: rows-N.bin; earlier rows.bin, rows.new

std::vector<fs::path> row_files(const fs::path& directory) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(directory))
        if (entry.path().filename().string().starts_with(rows_prefix)) found.push_back(entry.path());
    return found;
}
/// Returns a name after all existing ones.
std::string new_rows(const fs::path& directory) {
    std::uint64_t last = 0;
    for (const fs::path& path : row_files(directory)) {
        const std::string stem = path.stem().string();
        std::uint64_t number = 0;
        if (stem.size() > rows_prefix.size() && std::from_chars(stem.data() + rows_prefix.size() + 1, stem.data() + stem.size(), number).ec == std::errc{})
            last = std::max(last, number);
    }
    return "rows-" + std::to_string(last + 1) + ".bin";
}

nlohmann::ordered_json to_json(const metric_values& values) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : values) object[name] = value;
    return object;
}

} // namespace

void keep_best(const fs::path& file, gneiss::checkpoint state, const best_metrics& metrics, const row_writer& write_rows) {
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
        if (!rows.empty() && (!fs::exists(file, ignored) || rows_of(gneiss::load_checkpoint(file), directory, "").filename() != rows))
            fs::remove(directory / rows, ignored);
        throw;
    }
    for (const fs::path& old : row_files(directory))
        if (old.filename() != rows) fs::remove(old, ignored);
}

std::optional<kept_state> best_state_in(const fs::path& file) {
    if (!fs::exists(file)) return std::nullopt;
    const gneiss::checkpoint saved = gneiss::load_checkpoint(file);
    const auto text = saved.text(metrics_section);
    if (!text) return std::nullopt;
    const auto read = nlohmann::ordered_json::parse(*text, nullptr, false);
    best_metrics metrics;
    try {
        for (const auto& [name, value] : read.at("valid").items()) metrics.valid.emplace_back(name, value.get<double>());
        for (const auto& [name, value] : read.at("test").items()) metrics.test.emplace_back(name, value.get<double>());
        if (const auto found = read.find("per_class"); found != read.end()) metrics.per_class = *found;
    } catch (const nlohmann::json::exception&) {
        throw gneiss::error(gneiss::errc::corrupt, "has invalid metrics", {.path = file});
    }
    return kept_state{saved.position.epoch, std::move(metrics)};
}

fs::path rows_of(const gneiss::checkpoint& saved, const fs::path& directory, const char* otherwise) {
    // Only the file name: a damaged checkpoint cannot name another directory.
    return directory / fs::path(saved.text(rows_section).value_or(otherwise)).filename();
}

} // namespace programs
