#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/detail/check.hpp>
#include <gneiss/order/detail/found_sequences.hpp>
#include <gneiss/order/sequence.hpp>

namespace order_test {

using namespace gneiss;

/// Searches for a sequence of buffers with a given number of swaps in which every pair of partitions meets.
///
/// The sequence is a set of stays: partition, first state, state before which it leaves. One stay starts and one ends
/// at every swap, so two stays may exchange their ends or their partitions, and a stay may change its partition; such
/// moves lead from any sequence to any other. They are accepted as in simulated annealing; the cost is the number of
/// pairs that never meet. All arithmetic is on integers: the same draws give the same sequence on every machine.
///
/// \tparam Words  64-bit words of a set of states: swaps < 64 · Words
template <std::size_t Words>
class swap_search {
public:
    swap_search(std::uint32_t partitions, std::uint32_t slots, std::uint32_t swaps, random_key key)
        : partitions_(partitions),
          slots_(slots),
          swaps_(swaps),
          draw_(key),
          stays_(std::size_t{swaps} + slots),
          present_(partitions) {
        std::vector<std::size_t> open;
        for (std::size_t i = 0; i < stays_.size(); ++i) {
            stays_[i].partition = static_cast<partition_id>(i < partitions ? i : draw_.below(partitions));
            stays_[i].begin = i < slots ? 0 : static_cast<std::uint32_t>(i - slots + 1);
            stays_[i].end = swaps + 1;
            if (i < slots) {
                open.push_back(i);
                continue;
            }
            std::size_t& left = open[static_cast<std::size_t>(draw_.below(slots))];
            stays_[std::exchange(left, i)].end = stays_[i].begin;
        }
        for (stay& s : stays_) s.states = states_of(s);
        for (partition_id x = 0; x < partitions; ++x) present_[x] = presence(x);
        for (partition_id x = 0; x < partitions; ++x)
            for (partition_id y = 0; y < x; ++y) apart_ += never_resident_together(x, y);
    }

    /// Returns the sequence, partitions numbered by first appearance; nothing if `moves` moves do not find one.
    [[nodiscard]] std::optional<buffer_sequence> run(std::uint64_t moves) {
        constexpr std::uint64_t batch = 1024;
        for (std::uint64_t done = 0; done < moves && apart_ != 0; done += batch) {
            // The probability of accepting one more separate pair falls from 0.29 to 0 with the square of the remaining
            // share.
            const std::uint64_t left = ((moves - done) << 16) / moves;
            chance_ = (((left * left) >> 16) * 18776) >> 16;
            for (std::uint64_t i = 0; i < batch && apart_ != 0; ++i) move();
        }
        if (apart_ != 0) return std::nullopt;
        return sequence();
    }

private:
    using state_set = std::array<std::uint64_t, Words>;
    struct stay {
        partition_id partition = 0;
        std::uint32_t begin = 0, end = 0; ///< states begin … end − 1
        state_set states{};
    };

    [[nodiscard]] static state_set states_of(const stay& s) noexcept {
        state_set set{};
        for (std::size_t w = 0; w < Words; ++w) {
            const auto below_end = [w](std::uint32_t end) {
                const std::uint64_t bits = end > 64 * w ? end - 64 * w : 0;
                return bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
            };
            set[w] = below_end(s.end) & ~below_end(s.begin);
        }
        return set;
    }
    [[nodiscard]] state_set presence(partition_id x) const noexcept {
        state_set set{};
        for (const stay& s : stays_)
            if (s.partition == x)
                for (std::size_t w = 0; w < Words; ++w) set[w] |= s.states[w];
        return set;
    }
    [[nodiscard]] bool never_resident_together(partition_id x, partition_id y) const noexcept {
        std::uint64_t common = 0;
        for (std::size_t w = 0; w < Words; ++w) common |= present_[x][w] & present_[y][w];
        return common == 0;
    }
    /// Returns the number of pairs with x or y that never meet.
    [[nodiscard]] std::int64_t apart(partition_id x, partition_id y) const noexcept {
        std::int64_t count = never_resident_together(x, y);
        for (partition_id z = 0; z < partitions_; ++z)
            if (z != x && z != y)
                count += std::int64_t{never_resident_together(x, z)} + std::int64_t{never_resident_together(y, z)};
        return count;
    }
    [[nodiscard]] bool accept(std::int64_t worse) noexcept {
        if (worse <= 0) return true;
        std::uint64_t chance = chance_;
        for (std::int64_t i = 1; i < worse && chance != 0; ++i) chance = (chance * chance_) >> 16;
        return (draw_() >> 48) < chance;
    }

    void move() {
        const std::uint64_t word = draw_();
        stay& a = stays_[static_cast<std::size_t>(below(word << 2, stays_.size()))];
        stay& b = stays_[static_cast<std::size_t>(draw_.below(stays_.size()))];
        const std::uint64_t kind = word >> 62;
        const auto other = kind == 0 ? static_cast<partition_id>(draw_.below(partitions_)) : b.partition;
        const partition_id x = a.partition, y = other;
        if (x == y || (kind >= 2 && (a.end == b.end || a.begin >= b.end || b.begin >= a.end))) return;
        const std::int64_t before = apart(x, y);
        const state_set with_x = present_[x], with_y = present_[y];
        const auto change = [&] {
            if (kind == 0)
                a.partition = a.partition == x ? y : x;
            else if (kind == 1)
                std::swap(a.partition, b.partition);
            else {
                std::swap(a.end, b.end);
                a.states = states_of(a);
                b.states = states_of(b);
            }
        };
        change();
        present_[x] = presence(x);
        present_[y] = presence(y);
        const std::int64_t worse = apart(x, y) - before;
        if (accept(worse)) {
            apart_ += worse;
            return;
        }
        change();
        present_[x] = with_x;
        present_[y] = with_y;
    }

    /// If a slot would duplicate another's partition, it keeps its previous one.
    [[nodiscard]] buffer_sequence sequence() const {
        std::vector<partition_id> number(partitions_, partitions_), buffer;
        partition_id known = 0;
        const auto in_state = [&](partition_id x, std::uint32_t s) {
            return (present_[x][s / 64] >> (s % 64) & 1) != 0;
        };
        const auto take = [&](partition_id x) {
            if (number[x] == partitions_) number[x] = known++;
            buffer.push_back(x);
        };
        for (partition_id x = 0; x < partitions_; ++x)
            if (in_state(x, 0)) take(x);
        for (partition_id x = 0; x < partitions_ && buffer.size() < slots_; ++x)
            if (!in_state(x, 0)) take(x);
        buffer_sequence found;
        const auto add = [&] {
            found.emplace_back();
            for (const partition_id x : buffer) found.back().push_back(number[x]);
            std::ranges::sort(found.back());
        };
        add();
        for (std::uint32_t s = 1; s <= swaps_; ++s) {
            const stay& incoming = stays_[std::size_t{s} + slots_ - 1];
            if (std::ranges::find(buffer, incoming.partition) != buffer.end()) continue;
            buffer.erase(std::ranges::find_if(buffer, [&](partition_id x) { return !in_state(x, s); }));
            take(incoming.partition);
            add();
        }
        return found;
    }

    std::uint32_t partitions_, slots_, swaps_;
    random_stream draw_;
    std::vector<stay> stays_;        ///< by begin
    std::vector<state_set> present_; ///< by partition
    std::int64_t apart_ = 0;         ///< pairs that never meet
    std::uint64_t chance_ = 0;       ///< probability of accepting one more of them [2⁻¹⁶]
};

/// Searches for a sequence of buffers with at most `swaps` swaps in which every pair of partitions meets: simulated
/// annealing over the partition that enters and the one that leaves.
///
/// \param moves  number tried; a few million per second. More moves find fewer swaps; other seeds may as well
/// \return       sorted sets of `slots` partitions, neighbors differ by one swap; nothing if none was found
///
/// The same arguments give the same sequence on every machine. Memory: O(swaps). Throws errc::invalid_argument if two
/// partitions cannot meet, for `slots` ≥ `partitions`, and for 256 swaps or more.
[[nodiscard]] inline std::optional<buffer_sequence> search_sequence(
    std::uint32_t partitions, std::uint32_t slots, std::uint32_t swaps, std::uint64_t seed, std::uint64_t moves) {
    detail::check_buffer(partitions, slots);
    if (slots >= partitions || swaps >= 256)
        throw error(errc::invalid_argument, "searches are for buffers that swap, and for fewer than 256 swaps");
    const random_key key = random_key{seed, random_domain::plan}.with(partitions).with(slots).with(swaps);
    const auto run = [&](auto search) { return search.run(moves); };
    if (swaps < 64) return run(swap_search<1>(partitions, slots, swaps, key));
    if (swaps < 128) return run(swap_search<2>(partitions, slots, swaps, key));
    return run(swap_search<4>(partitions, slots, swaps, key));
}

/// Formats a sequence that starts with 0 … slots − 1 and swaps one partition at a time for `parse_sequence`.
/// Precondition: the sequence has fewer than 64 partitions.
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

} // namespace order_test
