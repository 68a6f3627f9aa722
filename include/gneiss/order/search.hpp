#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/concepts.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/detail/found_sequences.hpp>
#include <gneiss/order/detail/swap_search.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/order/sequence.hpp>

namespace gneiss {

/// Searches for a sequence of buffers with at most `swaps` swaps in which every pair of partitions meets: simulated
/// annealing over which partition comes and which one leaves.
///
/// \param moves  tried; a few million a second. More moves find fewer swaps; other seeds too
/// \return       sorted sets of `slots` partitions, neighbours differ by one swap; nothing if none was found
///
/// The same arguments give the same sequence on every machine. Memory: O(swaps). Throws errc::invalid_argument where
/// two partitions cannot meet, for `slots` ≥ `partitions`, and for 256 swaps or more.
[[nodiscard]] inline std::optional<buffer_sequence> search_sequence(
    std::uint32_t partitions, std::uint32_t slots, std::uint32_t swaps, std::uint64_t seed, std::uint64_t moves) {
    detail::check_buffer(partitions, slots);
    if (slots >= partitions || swaps >= 256)
        throw error(errc::invalid_argument, "searches are for buffers that swap, and for fewer than 256 swaps");
    const random_key key = random_key{seed, random_domain::plan}.with(partitions).with(slots).with(swaps);
    const auto run = [&](auto search) { return search.run(moves); };
    if (swaps < 64) return run(detail::swap_search<1>(partitions, slots, swaps, key));
    if (swaps < 128) return run(detail::swap_search<2>(partitions, slots, swaps, key));
    return run(detail::swap_search<4>(partitions, slots, swaps, key));
}

/// Text of a sequence that begins with 0 … slots − 1 and swaps one partition at a time: two letters a swap, what leaves
/// and what comes. Precondition: fewer than 64 partitions of such a sequence.
[[nodiscard]] inline std::string format_sequence(std::span<const std::vector<partition_id>> sequence) {
    std::string text;
    const auto only = [](const std::vector<partition_id>& of, const std::vector<partition_id>& without) {
        return *std::ranges::find_if(of, [&](partition_id p) { return !std::ranges::binary_search(without, p); });
    };
    for (std::size_t s = 1; s < sequence.size(); ++s) {
        text += detail::sequence_letters[only(sequence[s - 1], sequence[s])];
        text += detail::sequence_letters[only(sequence[s], sequence[s - 1])];
    }
    return text;
}

/// The sequence of the text. Throws errc::invalid_format for a letter that is none, a partition that leaves without
/// being there, or one that comes and is.
[[nodiscard]] inline buffer_sequence parse_sequence(std::string_view text, std::uint32_t slots) {
    std::vector<partition_id> buffer(slots);
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

/// The best sequence known for a buffer: one that `search_sequence` found, if there is one with fewer swaps than
/// BETA. Neither depends on a seed. O(p · swaps).
[[nodiscard]] inline std::optional<buffer_sequence> found_sequence(std::uint32_t partitions, std::uint32_t slots) {
    for (const detail::found_sequence_row& row : detail::found_sequences)
        if (row.partitions == partitions && row.slots == slots) return parse_sequence(row.swaps_text, slots);
    return std::nullopt;
}

/// Fewer swaps than BETA: sequences that a search found, for the p and c listed in `detail/found_sequences.hpp`; BETA
/// for all others. p = 8, c = 4: 8 swaps (BETA 9, bound 8); p = 16, c = 4: 39 (42, 38); p = 32, c = 8: 72 (78, 67).
/// Ours.
///
/// Every epoch numbers the partitions at random and takes the sequence forwards or backwards; buckets train where their
/// partitions first meet, shuffled within a state. Keyed by (seed, plan, epoch): 0 numbers, 4 buckets within a state,
/// 10 direction. Throws as `beta_order`.
class searched_order {
public:
    searched_order(std::uint32_t partitions, std::uint32_t slots, std::uint64_t seed = 0)
        : otherwise_(partitions, slots, seed),
          seed_(seed) {
        if (auto found = found_sequence(partitions, slots)) sequence_ = std::move(*found);
    }

    [[nodiscard]] std::uint32_t partitions() const noexcept { return otherwise_.partitions(); }
    [[nodiscard]] std::uint32_t slots() const noexcept { return otherwise_.slots(); }
    /// Whether a sequence is known that swaps less than BETA.
    [[nodiscard]] bool found() const noexcept { return !sequence_.empty(); }

    [[nodiscard]] plan operator()(std::uint64_t epoch) const {
        if (!found()) return otherwise_(epoch);
        const random_key key = random_key{seed_, random_domain::plan}.with(epoch);
        std::vector<partition_id> number(partitions());
        std::iota(number.begin(), number.end(), partition_id{0});
        shuffle(number, key.with(0));
        buffer_sequence sequence = sequence_;
        for (auto& buffer : sequence)
            for (partition_id& p : buffer) p = number[p];
        if (below(key.with(10)[0], 2) != 0) std::ranges::reverse(sequence);
        plan states = train_at_first_meeting(std::move(sequence), partitions());
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
