// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kit/report/statistics.hpp"

namespace study {

/// Identity of a run by its command line: runs with equal keys compute the same.
struct run_key {
    std::string program, dataset; ///< names
    std::string flags;            ///< as one text
    std::optional<std::uint64_t> seed{};

    friend bool operator==(const run_key&, const run_key&) = default;
};

/// Returns a line of a study's log: case, seed, flags, metrics, seconds, peak_rss_bytes of a finished run, from its
/// `run.json`, and under "epoch" means over its epochs with the loss of the last.
[[nodiscard]] nlohmann::ordered_json line_of(
    const std::string& name, const run_key& key, const nlohmann::ordered_json& run);

/// Finished runs of one or several studies, one line of JSON each. Holds nothing without a file.
class study_log {
public:
    /// Reads an existing file; drops a last line that a crash cut short. Throws `gneiss::error` that names an invalid
    /// line; `gneiss::io_error`.
    explicit study_log(std::optional<std::filesystem::path> file);

    /// Takes a run of that key, each at most once.
    [[nodiscard]] std::optional<nlohmann::ordered_json> take(const run_key& key);
    void add(const nlohmann::ordered_json& line) const;

private:
    std::optional<std::filesystem::path> file_;
    std::vector<nlohmann::ordered_json> lines_;
};

/// Returns the value of `metric` on the test split; accuracy, or else mrr, if it is empty. Absent if a run has none.
[[nodiscard]] std::optional<double> test_metric(const nlohmann::ordered_json& line, const std::string& metric);

/// Statistics of a case. Seconds, bytes and requests of an epoch are means over its epochs; over several runs they are
/// medians, but test metric and seconds of a run are means.
struct outcome {
    std::string name;
    std::uint64_t failed = 0; ///< failed runs
    std::string failure{};    ///< reason of the last failure
    std::vector<double> all_seconds{};
    double seconds = 0, wait_seconds = 0, read_bytes = 0, write_bytes = 0, read_requests = 0, hit_rate = 0, loss = 0,
           peak_rss = 0;
    std::vector<std::pair<std::string, double>> stages{};
    programs::estimate test{}, run_seconds{};
    programs::estimate difference{}; ///< test metric minus another case's, over the runs of the same seed

    [[nodiscard]] bool has_results() const noexcept { return !all_seconds.empty(); }
    [[nodiscard]] double stage(const std::string& named) const;
};

/// The runs of a case, by seed; absent: failed.
using runs_of_case = std::vector<std::optional<nlohmann::ordered_json>>;
[[nodiscard]] outcome summarize(const std::string& name, const runs_of_case& runs, const std::string& metric);
/// Returns the mean of `runs` − `base`, pair by pair.
[[nodiscard]] programs::estimate paired_difference(
    const runs_of_case& runs, const runs_of_case& base, const std::string& metric);

} // namespace study
