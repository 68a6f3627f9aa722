// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/detail/found_sequences.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/order/sequence.hpp>

namespace gneiss {

/// Parses a sequence that begins with 0 … slots − 1 and swaps one partition at a time; two letters per swap, the
/// partition evicted and the one loaded. Throws errc::invalid_format for an unknown letter, eviction of an absent
/// partition, or loading of a resident one.
[[nodiscard]] inline buffer_sequence parse_sequence(std::string_view text, std::uint32_t resident_partitions) {
    std::vector<partition_id> buffer(resident_partitions);
    std::iota(buffer.begin(), buffer.end(), partition_id{0});
    buffer_sequence sequence{buffer};
    for (std::size_t at = 0; at < text.size(); at += 2) {
        const std::size_t leaves = detail::sequence_letters.find(text[at]),
                          comes = at + 1 < text.size() ? detail::sequence_letters.find(text[at + 1]) : text.npos;
        const auto place = std::ranges::find(buffer, leaves);
        if (comes == text.npos || place == buffer.end() || std::ranges::find(buffer, comes) != buffer.end())
            throw error(errc::invalid_format, "swap " + std::to_string(at / 2) + " of a sequence is impossible");
        *place = static_cast<partition_id>(comes);
        sequence.push_back(buffer);
        std::ranges::sort(sequence.back());
    }
    return sequence;
}

/// Returns the best known sequence for a buffer, if it has fewer swaps than BETA. Independent of the seed. O(p ·
/// swaps).
[[nodiscard]] inline std::optional<buffer_sequence> found_sequence(
    std::uint32_t partitions, std::uint32_t resident_partitions) {
    for (const detail::found_sequence_row& row : detail::found_sequences)
        if (row.partitions == partitions && row.resident_partitions == resident_partitions)
            return parse_sequence(row.swaps_text, resident_partitions);
    return std::nullopt;
}

/// Order with fewer swaps than BETA: sequences found by a search, for the p and c listed in
/// `detail/found_sequences.hpp`; BETA for all others. p = 8, c = 4: 8 swaps (BETA 9, bound 8); p = 16, c = 4: 39 (42,
/// 38); p = 32, c = 8: 72 (78, 67). Ours.
///
/// Every epoch renumbers the partitions at random and runs the sequence forwards or backwards. Buckets train where
/// their partitions first meet, shuffled within a state. Keyed by (seed, plan, epoch): 0 numbers, 4 buckets within a
/// state, 10 direction. Throws as `beta_order`.
class searched_order {
public:
    /// Looks the sequence up; throws as `beta_order`.
    searched_order(std::uint32_t partitions, std::uint32_t resident_partitions, std::uint64_t seed = 0)
        : otherwise_(partitions, resident_partitions, seed),
          seed_(seed) {
        if (auto found = found_sequence(partitions, resident_partitions)) sequence_ = std::move(*found);
    }

    [[nodiscard]] std::uint32_t partitions() const noexcept { return otherwise_.partitions(); }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept { return otherwise_.resident_partitions(); }
    /// True if a sequence with fewer swaps than BETA is known.
    [[nodiscard]] bool found() const noexcept { return !sequence_.empty(); }

    [[nodiscard]] epoch_plan operator()(std::uint64_t epoch) const {
        if (!found()) return otherwise_(epoch);
        const random_key key = random_key{seed_, random_domain::plan}.with(epoch);
        std::vector<partition_id> number(partitions());
        std::iota(number.begin(), number.end(), partition_id{0});
        shuffle(number, key.with(0));
        buffer_sequence sequence = sequence_;
        for (auto& buffer : sequence)
            for (partition_id& p : buffer) p = number[p];
        if (below(key.with(10)[0], 2) != 0) std::ranges::reverse(sequence);
        epoch_plan states = train_when_first_resident(std::move(sequence), partitions());
        shuffle_edge_buckets(states, key.with(4));
        return states;
    }

private:
    beta_order otherwise_;
    std::uint64_t seed_;
    buffer_sequence sequence_; ///< empty: none is known
};

static_assert(edge_bucket_order<searched_order>);

} // namespace gneiss
