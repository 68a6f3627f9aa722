// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gneiss {

/// Hits of a static cache of any size that holds the entries with the highest scores per byte.
///
///     for (std::size_t v = 0; v < visits.size(); ++v) curve.add(visits[v], row_bytes, later_visits[v]);
///     const double hits = curve.answered(64 << 20); // of a cache of 64 MiB
///
/// Entries are added one by one, in any order. Only sums over classes of similar score are kept, eight per octave;
/// entries of a class are treated as equal. So `answered` is exact for scores that are powers of two, and otherwise off
/// by at most the contents of one class. Memory: 8 KiB, independent of the number of entries. Cost: O(1) per entry,
/// O(512) per query.
class hit_curve {
public:
    /// Adds an entry of `bytes` with `requests` requests in a sample and an expected request rate proportional to
    /// `score`. The score must come from a different sample; otherwise an entry requested once appears worth caching.
    void add(double score, std::uint64_t bytes, std::uint64_t requests) noexcept {
        total_ += requests;
        if (score <= 0 || bytes == 0) return; // never worth caching
        const double octaves = std::log2(score / static_cast<double>(bytes));
        const double at = std::clamp(std::floor((octaves + 32) * 8), 0.0, static_cast<double>(classes_.size() - 1));
        auto& of = classes_[classes_.size() - 1 - static_cast<std::size_t>(at)];
        of.bytes += bytes;
        of.requests += requests;
    }

    /// Requests of the sample answered by a cache of `bytes`; may be a fraction.
    [[nodiscard]] double answered(std::uint64_t bytes) const noexcept {
        double sum = 0;
        for (const auto& of : classes_) {
            if (of.bytes >= bytes)
                return of.bytes == 0 ? sum
                                     : sum +
                        static_cast<double>(of.requests) * static_cast<double>(bytes) / static_cast<double>(of.bytes);
            bytes -= of.bytes;
            sum += static_cast<double>(of.requests);
        }
        return sum;
    }
    /// Returns the number of requests of the sample.
    [[nodiscard]] std::uint64_t requests() const noexcept { return total_; }

private:
    struct sums {
        std::uint64_t bytes = 0, requests = 0;
    };
    std::array<sums, 512> classes_{}; // by descending score
    std::uint64_t total_ = 0;
};

/// Returns the share of `bytes` for the first of two caches that maximizes the requests answered by both; the smallest
/// such share. Both samples must come from the same batches. Resolution: 1/64.
[[nodiscard]] inline double best_split(const hit_curve& first, const hit_curve& second, std::uint64_t bytes) noexcept {
    constexpr std::uint64_t steps = 64;
    std::uint64_t best = 0;
    double most = -1;
    for (std::uint64_t i = 0; i <= steps; ++i) {
        const std::uint64_t to_first = bytes / steps * i;
        const double sum = first.answered(to_first) + second.answered(bytes - to_first);
        if (sum > most * (1 + 1e-9)) most = sum, best = i;
    }
    return static_cast<double>(best) / static_cast<double>(steps);
}

} // namespace gneiss
