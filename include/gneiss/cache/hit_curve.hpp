// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gneiss {

/// How many requests a static cache of any size would answer, if it holds the entries of the greatest scores per byte.
///
/// Entries are told one by one, in any order, and only sums over classes of about equal score are kept: eight to a doubling.
/// Within a class entries count as alike. So `answered` is exact where scores are powers of two, and off by what a class
/// holds elsewhere. Memory: 8 KiB, whatever the number of entries. Cost: O(1) an entry, O(512) a question.
class hit_curve {
public:
    /// An entry of `bytes` that was asked for `requests` times in a sample, and should be asked for again in proportion to
    /// `score`. The score must not come from that same sample, or what was asked for once will seem worth keeping.
    void add(double score, std::uint64_t bytes, std::uint64_t requests) noexcept {
        total_ += requests;
        if (score <= 0 || bytes == 0) return; // never worth a byte
        const double octaves = std::log2(score / static_cast<double>(bytes));
        const double at = std::clamp(std::floor((octaves + 32) * 8), 0.0, static_cast<double>(classes_.size() - 1));
        auto& of = classes_[classes_.size() - 1 - static_cast<std::size_t>(at)];
        of.bytes += bytes;
        of.requests += requests;
    }

    /// Requests of the sample that a cache of `bytes` answers; may be a fraction.
    [[nodiscard]] double answered(std::uint64_t bytes) const noexcept {
        double sum = 0;
        for (const auto& of : classes_) {
            if (of.bytes >= bytes) return of.bytes == 0 ? sum : sum + static_cast<double>(of.requests) * static_cast<double>(bytes) / static_cast<double>(of.bytes);
            bytes -= of.bytes;
            sum += static_cast<double>(of.requests);
        }
        return sum;
    }
    [[nodiscard]] std::uint64_t requests() const noexcept { return total_; }

private:
    struct sums {
        std::uint64_t bytes = 0, requests = 0;
    };
    std::array<sums, 512> classes_{}; // of falling score
    std::uint64_t total_ = 0;
};

/// The share of `bytes` that the first of two caches should have, so that both together answer the most requests; of equal
/// ones the smallest. Both samples are of the same batches. In steps of 1/64.
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
