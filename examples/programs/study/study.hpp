#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/statistics.hpp"

namespace study {

/// What one run is, as told by the command line: runs that are equal in this compute the same.
struct run_key {
    std::string program, dataset; ///< their names
    std::string flags;            ///< as one text
    std::optional<std::uint64_t> seed{};

    friend bool operator==(const run_key&, const run_key&) = default;
};

/// A line of a study's log: case, seed, flags, metrics, seconds, peak_rss_bytes of a finished run, from its `run.json`,
/// and under "epoch" what its epochs took (means) with the loss of the last.
[[nodiscard]] nlohmann::ordered_json line_of(const std::string& name, const run_key& key, const nlohmann::ordered_json& run);

/// The finished runs of one or several studies, a line of JSON each. Without a file it holds nothing.
class study_log {
public:
    /// Reads what is there; a last line that a crash cut short is dropped. Throws `gneiss::error` that names a line
    /// which is no run; `gneiss::io_error`.
    explicit study_log(std::optional<std::filesystem::path> file);

    /// A run of that key, each at most once.
    [[nodiscard]] std::optional<nlohmann::ordered_json> take(const run_key& key);
    void add(const nlohmann::ordered_json& line) const;

private:
    std::optional<std::filesystem::path> file_;
    std::vector<nlohmann::ordered_json> lines_;
};

/// The value of `metric` on the test split; of accuracy or else mrr when it is empty. Absent where a run has none.
[[nodiscard]] std::optional<double> test_metric(const nlohmann::ordered_json& line, const std::string& metric);

/// What is told of a case. Seconds, bytes and requests of an epoch are means over its epochs; of several runs medians,
/// but the test metric and a run's seconds: means.
struct outcome {
    std::string name;
    std::uint64_t failed = 0; ///< runs
    std::string failure{};    ///< why the last of them did
    std::vector<double> all_seconds{};
    double seconds = 0, wait_seconds = 0, read_bytes = 0, write_bytes = 0, read_requests = 0, hit_rate = 0, loss = 0, peak_rss = 0;
    std::vector<std::pair<std::string, double>> stages{};
    programs::estimate test{}, run_seconds{};
    programs::estimate difference{}; ///< of the test metric to another case's, over the runs of the same seed

    [[nodiscard]] bool told() const noexcept { return !all_seconds.empty(); }
    [[nodiscard]] double stage(const std::string& named) const;
};

/// The runs of a case, by seed; absent: failed.
using runs_of_case = std::vector<std::optional<nlohmann::ordered_json>>;
[[nodiscard]] outcome summarize(const std::string& name, const runs_of_case& runs, const std::string& metric);
/// The mean of `runs` − `base`, pair by pair.
[[nodiscard]] programs::estimate paired_difference(const runs_of_case& runs, const runs_of_case& base, const std::string& metric);

} // namespace study
