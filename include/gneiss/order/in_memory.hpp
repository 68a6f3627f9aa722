// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <numeric>

#include <gneiss/core/random.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/sequence.hpp>

namespace gneiss {

/// Order with everything resident: one state with all p² edge buckets, shuffled.
///
/// Throws errc::invalid_argument for zero partitions. Keyed by (seed, plan, epoch).
class in_memory_order {
public:
    /// Throws errc::invalid_argument for 0 partitions.
    explicit in_memory_order(std::uint32_t partitions, std::uint64_t seed = 0) : partitions_(partitions), seed_(seed) {
        detail::check_buffer(partitions, partitions);
    }

    [[nodiscard]] std::uint32_t partitions() const noexcept { return partitions_; }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept { return partitions_; }

    [[nodiscard]] epoch_plan operator()(std::uint64_t epoch) const {
        std::vector<partition_id> all(partitions_);
        std::iota(all.begin(), all.end(), partition_id{0});
        epoch_plan states = train_when_first_resident({all}, partitions_);
        shuffle_edge_buckets(states, random_key{seed_, random_domain::plan}.with(epoch).with(4));
        return states;
    }

private:
    std::uint32_t partitions_;
    std::uint64_t seed_;
};

static_assert(edge_bucket_order<in_memory_order>);

} // namespace gneiss
