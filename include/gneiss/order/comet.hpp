// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/order/sequence.hpp>

namespace gneiss {

/// Returns all pairs of n elements, each once, such that consecutive pairs share one: a balanced trail. Ours.
///
/// Zigzags 0, 1, −1, 2, −2, … (mod n) and their rotations decompose the complete graph into n/2 Hamiltonian paths
/// (Walecki). Every second path is reversed, so that each begins next to the end of the previous one. An element
/// therefore appears once, for two pairs, in every n − 1 pairs; BETA keeps one of the two for a whole round. For odd n
/// an additional element closes each path to a cycle. O(n²) time and space.
[[nodiscard]] inline std::vector<std::pair<std::uint32_t, std::uint32_t>> balanced_trail(std::uint32_t n) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    if (n < 2) return pairs;
    pairs.reserve(std::size_t{n} * (n - 1) / 2);
    const std::uint32_t even = n - n % 2;
    std::vector<std::uint32_t> path(even);
    for (std::uint32_t k = 0; k < even / 2; ++k) {
        for (std::uint32_t i = 0; i < even; ++i) path[i] = (k + (i % 2 == 1 ? (i + 1) / 2 : even - i / 2)) % even;
        if (k % 2 == 1) std::ranges::reverse(path);
        if (n != even) pairs.emplace_back(even, path.front());
        for (std::uint32_t i = 1; i < even; ++i) pairs.emplace_back(path[i - 1], path[i]);
        if (n != even) pairs.emplace_back(path.back(), even);
    }
    return pairs;
}

/// Sequence of logical partitions.
enum class logical_order : std::uint8_t {
    greedy,   ///< the paper's: one stays until it has met all others
    balanced, ///< `balanced_trail`: each stays for two states and returns evenly; ours, the same bytes
    beta      ///< BETA with four at a time, or all slots if fewer: fewer bytes; ours
};

/// COMET, COrrelation Minimizing Edge Traversal. Each epoch groups partitions at random into logical partitions. Pairs
/// of logical partitions are resident; one is swapped at a time until every pair has met. An edge bucket trains in a
/// random state that holds both its partitions.
///
///     const comet_order order(64, 16, seed); // 16 of 64 partitions resident, 8 logical partitions
///     const epoch_plan states = order(epoch);
///
/// With l logical partitions of g = ⌊slots/2⌋ partitions (the last has fewer if g does not divide p), an epoch has l(l
/// − 1)/2 states and l(l − 1)/2 − 1 swaps of logical partitions. A buffer of all partitions gives one state. With
/// `logical_order::beta` the buffer holds four logical partitions, each a quarter of the slots, in BETA's sequence: the
/// bytes of BETA over l = 4p/c partitions, whose members change every epoch. Keyed by (seed, plan, epoch, 6…): 6
/// grouping, 7 order of pairs, 8 spreading, 9 buckets within a state.
/// Throws errc::invalid_argument for a buffer in which two partitions cannot meet. Cost: O(states · slots²).
/// Source: MariusGNN, EuroSys'23, §5.1; l = 2p/c, c_l = 2 by §6.
class comet_order {
public:
    /// Throws errc::invalid_argument for a buffer in which two partitions cannot meet.
    comet_order(std::uint32_t partitions, std::uint32_t resident_partitions, std::uint64_t seed = 0,
        logical_order pairs = logical_order::greedy)
        : partitions_(partitions),
          resident_partitions_(resident_partitions),
          seed_(seed),
          pairs_(pairs) {
        detail::check_buffer(partitions, resident_partitions);
    }

    [[nodiscard]] std::uint32_t partitions() const noexcept { return partitions_; }
    [[nodiscard]] std::uint32_t resident_partitions() const noexcept { return resident_partitions_; }
    /// Number of logical partitions l; 1 if everything is resident.
    [[nodiscard]] std::uint32_t logical_partitions() const noexcept {
        return resident_partitions_ >= partitions_ ? 1 : static_cast<std::uint32_t>(ceil_div(partitions_, group()));
    }

    [[nodiscard]] epoch_plan operator()(std::uint64_t epoch) const {
        const random_key key = random_key{seed_, random_domain::plan}.with(epoch);
        std::vector<partition_id> all(partitions_);
        std::iota(all.begin(), all.end(), partition_id{0});
        shuffle(all, key.with(6));
        epoch_plan states;
        if (resident_partitions_ >= partitions_) {
            std::ranges::sort(all);
            states.push_back({std::move(all), {}});
        } else
            for (const auto& present : logical_sequence(key.with(7))) {
                buffer_state s;
                for (const partition_id l : present)
                    for (std::uint32_t i = l * group(); i < std::min((l + 1) * group(), partitions_); ++i)
                        s.resident.push_back(all[i]);
                std::ranges::sort(s.resident);
                states.push_back(std::move(s));
            }
        randomize_bucket_states(states, partitions_, key.with(8));
        shuffle_edge_buckets(states, key.with(9));
        return states;
    }

private:
    /// Number of logical partitions in the buffer. group(): partitions in each.
    [[nodiscard]] std::uint32_t together() const noexcept {
        return pairs_ == logical_order::beta ? std::min(resident_partitions_, 4U) : 2;
    }
    [[nodiscard]] std::uint32_t group() const noexcept { return resident_partitions_ / together(); }

    [[nodiscard]] buffer_sequence logical_sequence(random_key key) const {
        const std::uint32_t l = logical_partitions();
        if (pairs_ != logical_order::balanced) return beta_sequence(l, together(), key);
        buffer_sequence pairs;
        for (const auto& [a, b] : balanced_trail(l)) pairs.push_back({a, b}); // the members of each are random already
        return pairs;
    }

    std::uint32_t partitions_, resident_partitions_;
    std::uint64_t seed_;
    logical_order pairs_;
};

static_assert(edge_bucket_order<comet_order>);

} // namespace gneiss
