// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/chunk_lists.hpp>

namespace gneiss::detail {

/// Algorithm 1 of Armada, one chunk at a time: two sides, and for each node a running estimate of its neighbors on
/// both.
class grem_bisection {
public:
    static constexpr std::uint8_t no_side = 2;

    /// \param sides   [nodes], owned by the caller; read and written in place
    /// \param counts  [2 · nodes] neighbors of node v by side at 2v and 2v + 1, if v has a side; in place as well
    /// \param most    maximum nodes per side; together at least all nodes
    /// \param older   weight of earlier chunks in an estimate; 1: a node keeps its first side
    grem_bisection(
        std::span<std::uint8_t> sides, std::span<float> counts, std::array<std::uint64_t, 2> most, float older)
        : sides_(sides),
          counts_(counts),
          most_(most),
          older_(older) {}

    /// Starts without sides. `resume` instead continues an interrupted bisection with these sizes, sides and counts.
    void begin() { std::ranges::fill(sides_, no_side); }
    void resume(std::array<std::uint64_t, 2> sizes) noexcept { sizes_ = sizes; }

    [[nodiscard]] std::array<std::uint64_t, 2> sizes() const noexcept { return sizes_; }

    /// Takes the sides that a seed partitioner assigned to the nodes of the first chunk. Nodes beyond a cap change
    /// sides, those that lose the fewest neighbors first.
    void take_seed(const chunk_lists& chunk, std::span<const node_id> members, std::span<const partition_id16> given) {
        if (given.size() != members.size() || std::ranges::any_of(given, [](partition_id16 p) { return p > 1; }))
            throw error(errc::invalid_argument, "the seed partitioner did not return two sides");
        for (std::size_t i = 0; i < members.size(); ++i) {
            sides_[members[i]] = static_cast<std::uint8_t>(given[i]);
            ++sizes_[given[i]];
        }
        for (const std::uint8_t side : {std::uint8_t{0}, std::uint8_t{1}})
            if (sizes_[side] > most_[side]) lighten(chunk, members, side);
        for (const node_id v : members) {
            const auto [zero, one] = neighbors(chunk.list(v));
            counts_[2 * std::size_t{v}] = zero;
            counts_[2 * std::size_t{v} + 1] = one;
        }
    }

    /// Assigns each node of the chunk, ascending, to the side with most of its neighbors, by this chunk and earlier
    /// ones. A node leaves its side before it chooses; otherwise a full side would lose all its nodes one by one.
    void take(const chunk_lists& chunk) {
        for (std::size_t v = 0; v < sides_.size(); ++v) {
            const std::span<const node_id> list = chunk.list(static_cast<node_id>(v));
            if (list.empty()) continue;
            const std::uint8_t old = sides_[v];
            if (old != no_side && older_ == 1) continue;
            auto [zero, one] = neighbors(list);
            if (old != no_side) {
                zero = older_ * counts_[2 * v] + (1 - older_) * zero;
                one = older_ * counts_[2 * v + 1] + (1 - older_) * one;
                --sizes_[old];
            }
            counts_[2 * v] = zero;
            counts_[2 * v + 1] = one;
            sides_[v] = choose(zero, one, old);
            ++sizes_[sides_[v]];
        }
    }

    /// Assigns nodes without an edge to the side with the most room.
    void finish() {
        for (std::uint8_t& side : sides_)
            if (side == no_side) ++sizes_[side = emptier()];
    }

private:
    struct pair {
        float zero, one;
    };
    [[nodiscard]] static std::uint8_t other(std::uint8_t side) noexcept { return side == 0 ? 1 : 0; }

    [[nodiscard]] pair neighbors(std::span<const node_id> list) const noexcept {
        std::uint32_t ones = 0, none = 0;
        for (const node_id u : list) {
            ones += sides_[u] & 1U;
            none += std::uint32_t{sides_[u]} >> 1U;
        }
        return {static_cast<float>(list.size() - ones - none), static_cast<float>(ones)};
    }
    /// Side for a node that has left its side, so that there is room for it.
    [[nodiscard]] std::uint8_t choose(float zero, float one, std::uint8_t old) const noexcept {
        if (zero == one) return old != no_side ? old : emptier();
        const std::uint8_t wanted = one > zero ? 1 : 0;
        return sizes_[wanted] < most_[wanted] ? wanted : other(wanted);
    }
    /// Side that is filled less, relative to its own size.
    [[nodiscard]] std::uint8_t emptier() const noexcept {
        const auto filled = [&](std::size_t i) {
            return static_cast<double>(sizes_[i]) / static_cast<double>(most_[i]);
        };
        return sizes_[0] >= most_[0] || (sizes_[1] < most_[1] && filled(1) < filled(0)) ? 1 : 0;
    }
    void lighten(const chunk_lists& chunk, std::span<const node_id> members, std::uint8_t side) {
        struct loss {
            float lost;
            node_id node;
            bool operator<(const loss& other) const noexcept {
                return lost != other.lost ? lost < other.lost : node < other.node;
            }
        };
        std::vector<loss> losses;
        for (const node_id v : members)
            if (sides_[v] == side) {
                const auto [zero, one] = neighbors(chunk.list(v));
                losses.push_back({side == 0 ? zero - one : one - zero, v});
            }
        const std::uint64_t excess = sizes_[side] - most_[side];
        std::ranges::nth_element(losses, losses.begin() + static_cast<std::ptrdiff_t>(excess), std::less<>());
        for (std::size_t i = 0; i < excess; ++i) sides_[losses[i].node] = other(side);
        sizes_[side] -= excess;
        sizes_[other(side)] += excess;
    }

    std::span<std::uint8_t> sides_;
    std::span<float> counts_;
    std::array<std::uint64_t, 2> most_;
    std::array<std::uint64_t, 2> sizes_{};
    float older_;
};

} // namespace gneiss::detail
