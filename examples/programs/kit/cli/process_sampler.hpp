// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace programs {

/// Totals since the run began, over all workers. They never decrease.
struct activity {
    double compute_seconds = 0; ///< workers at work in the compute stage
    double wait_seconds = 0;    ///< the same workers waiting for input or room
    std::uint64_t read_bytes = 0, write_bytes = 0;
    double evaluate_seconds = 0, save_seconds = 0; ///< elapsed while the run evaluated, and saved its state
};

/// Rates between two samples.
struct time_sample {
    double seconds = 0;                    ///< since the run began, at the end of the interval
    double busy_share = 0, wait_share = 0; ///< shares of the compute stage's time; the rest is neither
    double read_rate = 0, write_rate = 0;  ///< bytes/s
    std::uint64_t rss_bytes = 0;
    double fault_rate = 0;                     ///< pages/s that were mapped, touched and not in the page cache
    double evaluate_share = 0, save_share = 0; ///< of the interval, in which nothing trains
};

/// Samples a running program: a thread calls `totals` at even intervals and keeps the differences. Keeps at most
/// `most_samples` samples of a long run by merging adjacent ones and sampling half as often. A failed sample is left
/// out, and the next successful one covers its time too: statistics never end a run.
class run_sampler {
public:
    static constexpr std::size_t most_samples = 600;

    /// \param totals   called from the sampler's thread until this is destroyed or stopped
    /// \param workers  of the compute stage: the meaning of a share of 1
    explicit run_sampler(std::function<activity()> totals, double workers = 1, double every_seconds = 0.5);
    ~run_sampler() { stop(); }
    run_sampler(const run_sampler&) = delete;
    run_sampler& operator=(const run_sampler&) = delete;

    /// Takes a last sample and ends the thread. Later calls do nothing.
    void stop();
    /// Returns the samples so far. Thread-safe.
    [[nodiscard]] std::vector<time_sample> samples() const;
    /// Returns the number of failed samples so far: `totals` threw, or memory ran out. Thread-safe.
    [[nodiscard]] std::uint64_t missed() const;

private:
    void look();

    std::function<activity()> totals_;
    double workers_, every_, began_, last_time_ = 0;
    activity last_{};
    std::uint64_t last_faults_ = 0, missed_ = 0;
    std::vector<time_sample> samples_;
    mutable std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread thread_;
};

/// Returns half the samples, each standing for two.
[[nodiscard]] std::vector<time_sample> merged_pairs(const std::vector<time_sample>& samples);

} // namespace programs
