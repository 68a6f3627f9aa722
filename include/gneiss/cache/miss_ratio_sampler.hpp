// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/cache/hit_curve.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Estimates the miss ratio of a static cache of any size from sampled requests, without a counter per row.
///
///     miss_ratio_sampler sampler(nodes);
///     for (const auto& batch : batches) sampler.add(batch); // its distinct rows
///     const double misses = sampler.miss_ratio(capacity);   // per request
///
/// Watches one row of each `stride` consecutive rows, at a position specific to the block. Its requests in every second
/// batch rank it, and those in the other batches count as hits or misses; then the roles swap. No request ranks itself,
/// so the cache is filled by a profile and evaluated on unseen batches. With a large `stride` only some hubs are
/// watched.
///
/// Memory: 8 bytes per watched row. Cost: O(1) per request. Thread-safety: one thread at a time.
class miss_ratio_sampler {
public:
    /// \param rows  number of rows
    /// \param most  maximum number of watched rows
    explicit miss_ratio_sampler(std::uint64_t rows, std::size_t most = std::size_t{1} << 16)
        : rows_(rows),
          stride_(std::max<std::uint64_t>((rows + most - 1) / std::max<std::size_t>(most, 1), 1)),
          watched_(static_cast<std::size_t>((rows + stride_ - 1) / stride_)) {}

    /// Adds the requests of one batch, distinct rows.
    void add(std::span<const node_id> rows) noexcept {
        for (const node_id v : rows) {
            const std::uint64_t block = v / stride_;
            if (v == place_of(block)) ++watched_[static_cast<std::size_t>(block)].requests[batches_ % 2];
        }
        ++batches_;
    }

    [[nodiscard]] std::uint64_t batches() const noexcept { return batches_; }

    /// Misses per request of a cache of `capacity` rows; 1 before any request. Cost: O(watched).
    [[nodiscard]] double miss_ratio(std::uint64_t capacity) const noexcept {
        double answered = 0, requests = 0;
        for (const std::size_t ranking : {std::size_t{0}, std::size_t{1}}) {
            hit_curve curve; // a watched row stands for its block; rows never requested come last and fill the
                             // remaining space
            for (std::size_t b = 0; b < watched_.size(); ++b)
                curve.add(watched_[b].requests[ranking] + 0.25, block_size(b), watched_[b].requests[1 - ranking]);
            answered += curve.answered(capacity);
            requests += static_cast<double>(curve.requests());
        }
        return requests == 0 ? 1 : std::max(0.0, 1 - answered / requests);
    }

private:
    struct counts {
        std::uint32_t requests[2] = {0, 0}; // in batches of even and odd number
    };

    [[nodiscard]] std::uint64_t block_size(std::uint64_t block) const noexcept {
        return std::min(stride_, rows_ - block * stride_);
    }
    [[nodiscard]] std::uint64_t place_of(std::uint64_t block) const noexcept {
        return block * stride_ + below(mix64(block + 1), block_size(block));
    }

    std::uint64_t rows_, stride_, batches_ = 0;
    std::vector<counts> watched_; // one per block
};

} // namespace gneiss
