// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gneiss/partition/concepts.hpp>

namespace gneiss::detail {

/// Load penalty per (group, part), and the part of lowest penalty per group. An ordered set by (penalty, part) of which
/// only the first is needed: a tournament tree.
///
/// Cost: `first` O(1); `set` O(log parts), less if a winner stays. Memory: 12 bytes per (group, part).
class load_table {
public:
    static constexpr double infinite = std::numeric_limits<double>::infinity();

    /// Starts with all penalties 0. Precondition: parts > 0.
    load_table(std::size_t groups, std::uint32_t parts)
        : parts_(parts),
          loads_(groups * parts),
          winners_(2 * groups * parts) {
        for (std::size_t g = 0; g < groups; ++g) {
            partition_id16* const winner = winners_.data() + 2 * g * parts;
            for (std::uint32_t p = 0; p < parts; ++p) winner[parts + p] = static_cast<partition_id16>(p);
            for (std::uint32_t match = parts - 1; match > 0; --match) winner[match] = better(g, match);
        }
    }

    [[nodiscard]] double operator()(std::size_t group, partition_id16 p) const noexcept {
        return loads_[group * parts_ + p];
    }

    /// Part of lowest penalty, then of lowest number.
    [[nodiscard]] partition_id16 first(std::size_t group) const noexcept { return winners_[2 * group * parts_ + 1]; }

    void set(std::size_t group, partition_id16 p, double load_penalty) noexcept {
        loads_[group * parts_ + p] = load_penalty;
        partition_id16* const winner = winners_.data() + 2 * group * parts_;
        for (std::uint32_t match = (parts_ + p) / 2; match > 0; match /= 2) {
            const partition_id16 now = better(group, match);
            if (now == winner[match] && now != p) return; // contenders above are unchanged
            winner[match] = now;
        }
    }

    [[nodiscard]] static constexpr std::uint64_t bytes(std::uint64_t groups, std::uint32_t parts) noexcept {
        return 12 * groups * parts;
    }

private:
    [[nodiscard]] partition_id16 better(std::size_t group, std::uint32_t match) const noexcept {
        const partition_id16* const winner = winners_.data() + 2 * group * parts_;
        const double* const load_penalty = loads_.data() + group * parts_;
        const partition_id16 a = winner[2 * match], b = winner[2 * match + 1];
        return load_penalty[b] < load_penalty[a] || (load_penalty[b] == load_penalty[a] && b < a) ? b : a;
    }

    std::uint32_t parts_;
    std::vector<double> loads_; // [groups, parts]
    std::vector<partition_id16>
        winners_; // [groups, 2 parts] winner of match i from 1 on; the parts themselves from `parts` on
};

} // namespace gneiss::detail
