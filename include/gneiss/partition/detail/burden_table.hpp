#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gneiss/partition/concepts.hpp>

namespace gneiss::detail {

/// A burden for each (group, part), and the least burdened part of each group: an ordered set of the parts per group, by
/// (burden, part), of which only the first is asked for. So it is a tournament: each match is won by the lesser of two.
///
/// Cost: `first` O(1), `set` O(log parts), less where the winner of a match stays. Memory: 12 bytes a (group, part).
class burden_table {
public:
    static constexpr double infinite = std::numeric_limits<double>::infinity();

    /// All burdens are 0. Precondition: parts > 0.
    burden_table(std::size_t groups, std::uint32_t parts)
        : parts_(parts), burdens_(groups * parts), winners_(2 * groups * parts) {
        for (std::size_t g = 0; g < groups; ++g) {
            part_id* const winner = winners_.data() + 2 * g * parts;
            for (std::uint32_t p = 0; p < parts; ++p) winner[parts + p] = static_cast<part_id>(p);
            for (std::uint32_t match = parts - 1; match > 0; --match) winner[match] = better(g, match);
        }
    }

    [[nodiscard]] double operator()(std::size_t group, part_id p) const noexcept { return burdens_[group * parts_ + p]; }

    /// The part of the least burden, of those the one of the least number.
    [[nodiscard]] part_id first(std::size_t group) const noexcept { return winners_[2 * group * parts_ + 1]; }

    void set(std::size_t group, part_id p, double burden) noexcept {
        burdens_[group * parts_ + p] = burden;
        part_id* const winner = winners_.data() + 2 * group * parts_;
        for (std::uint32_t match = (parts_ + p) / 2; match > 0; match /= 2) {
            const part_id now = better(group, match);
            if (now == winner[match] && now != p) return; // who contends above is who was, with the burden it had
            winner[match] = now;
        }
    }

    [[nodiscard]] static constexpr std::uint64_t bytes(std::uint64_t groups, std::uint32_t parts) noexcept {
        return 12 * groups * parts;
    }

private:
    [[nodiscard]] part_id better(std::size_t group, std::uint32_t match) const noexcept {
        const part_id* const winner = winners_.data() + 2 * group * parts_;
        const double* const burden = burdens_.data() + group * parts_;
        const part_id a = winner[2 * match], b = winner[2 * match + 1];
        return burden[b] < burden[a] || (burden[b] == burden[a] && b < a) ? b : a;
    }

    std::uint32_t parts_;
    std::vector<double> burdens_;  // [groups, parts]
    std::vector<part_id> winners_; // [groups, 2 parts] of match i from 1 on; the parts themselves from `parts` on
};

} // namespace gneiss::detail
