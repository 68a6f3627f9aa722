#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace programs {

/// Totals since the run began, of all workers together. They never fall.
struct activity {
    double compute_seconds = 0; ///< workers at work in the compute stage
    double wait_seconds = 0;    ///< the same workers waiting for input or room
    std::uint64_t read_bytes = 0, write_bytes = 0;
};

/// What went on between two looks.
struct time_sample {
    double seconds = 0;                    ///< since the run began, at the end of the span
    double busy_share = 0, wait_share = 0; ///< of the compute stage's time; the rest is neither
    double read_rate = 0, write_rate = 0;  ///< bytes/s
    std::uint64_t rss_bytes = 0;
    double fault_rate = 0;                 ///< pages/s that were mapped, touched and not in the page cache
};

/// Looks at a run while it goes on: a thread of its own calls `totals` at even intervals and keeps the differences. A
/// long run is kept at `most_samples` at most by merging neighbors and looking half as often. A look that fails is left out,
/// and the next one that does not stands for its time too: statistics never end a run.
class run_sampler {
public:
    static constexpr std::size_t most_samples = 600;

    /// \param totals   called from the sampler's thread until this is destroyed or stopped
    /// \param workers  of the compute stage: what a share of 1 stands for
    explicit run_sampler(std::function<activity()> totals, double workers = 1, double every_seconds = 0.5);
    ~run_sampler() { stop(); }
    run_sampler(const run_sampler&) = delete;
    run_sampler& operator=(const run_sampler&) = delete;

    /// Looks a last time and ends the thread. Later calls do nothing.
    void stop();
    /// What was seen so far. Thread-safe.
    [[nodiscard]] std::vector<time_sample> samples() const;
    /// Looks that failed so far: `totals` threw, or there was no memory. Thread-safe.
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

/// Half as many samples, each standing for two.
[[nodiscard]] std::vector<time_sample> merged_pairs(const std::vector<time_sample>& samples);

} // namespace programs
