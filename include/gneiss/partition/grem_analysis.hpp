// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss {

/// Effective number of chunks in an estimate that averages the `seen` latest ones, where earlier chunks have weight
/// `older` in each average: 1/Σw² of the weights. 1 for one chunk; (1 + older)/(1 − older) for many, 3 for halving.
/// Throws errc::invalid_argument unless seen ≥ 1, 0 ≤ older < 1. O(1).
[[nodiscard]] inline double effective_chunks(double older, double seen) {
    if (!(older >= 0 && older < 1))
        throw error(errc::invalid_argument, "a share from 0 to below 1 is needed", {.field = "older"});
    if (!(seen >= 1)) throw error(errc::invalid_argument, "at least one chunk is needed", {.field = "seen"});
    const double first =
        std::pow(older * older, seen - 1); // squared weight of the first chunk; the others form a series
    return 1 / (first + (1 - older) / (1 + older) * (1 - first));
}

/// Result of `wrong_side`.
struct wrong_or_tie {
    double wrong = 0, tie = 0; ///< both probabilities
};
/// Probability that fewer than half of `drawn` out of k neighbors, k₀ of which are in the first part, are in it; and
/// that exactly half are. Hypergeometric. Throws errc::invalid_argument unless k₀ ≤ k, drawn ≤ k. O(drawn).
[[nodiscard]] inline wrong_or_tie wrong_side(std::uint64_t k, std::uint64_t k0, std::uint64_t drawn) {
    if (k0 > k || drawn > k)
        throw error(errc::invalid_argument,
            std::to_string(drawn) + " drawn neighbors, " + std::to_string(k0) + " in the first part, of " +
                std::to_string(k));
    const auto log_choose = [](std::uint64_t n, std::uint64_t r) {
        const auto a = static_cast<double>(n), b = static_cast<double>(r);
        return std::lgamma(a + 1) - std::lgamma(b + 1) - std::lgamma(a - b + 1);
    };
    wrong_or_tie found;
    const std::uint64_t least = drawn > k - k0 ? drawn - (k - k0) : 0;
    for (std::uint64_t in_first = least; 2 * in_first <= drawn && in_first <= k0; ++in_first) {
        const double p =
            std::exp(log_choose(k0, in_first) + log_choose(k - k0, drawn - in_first) - log_choose(k, drawn));
        (2 * in_first < drawn ? found.wrong : found.tie) += p;
    }
    return found;
}

/// Treatment of a tie between both parts.
enum class greedy_tie : std::uint8_t {
    right, ///< the better part, as printed: a node without information is always right
    even   ///< either part, as happens when ties are broken by size
};

/// Expected share of edges cut by a greedy partitioner that places each node by a random share x of the edges after all
/// others have parts: equation 1 over the number of edges, halved because it counts a cut edge at both ends.
///
/// With refinement, estimates are as for `effective_chunks` times the chunk: 2x after two, 3x in the limit.
///
/// \param assignment  [nodes] two parts, such as a good partition of all edges: k₀ of a node is the larger count of its
///                    neighbors in one of them
/// \param share       x, in [0, 1]; a node of k neighbors draws x·k of them, a fractional one by chance
///
/// Cost: one pass of the stream, and O(x·k) for each pair (k, k₀) that occurs; 40 bytes per pair. Errors:
/// errc::invalid_argument for a wrong number of nodes or a share outside [0, 1]; errc::out_of_range for a third part.
/// Source: Armada, section 4.2.
template <adjacency_stream Stream>
[[nodiscard]] double expected_greedy_cut(
    Stream& stream, std::span<const partition_id16> assignment, double share, greedy_tie tie = greedy_tie::right) {
    check_assignment(assignment, 2, stream.nodes());
    if (!(share >= 0 && share <= 1))
        throw error(errc::invalid_argument, "a share from 0 to 1 is needed", {.field = "share"});
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> kinds; // nodes by (k, k0)
    stream.rewind();
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next())
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            std::uint64_t neighbors = 0, second = 0;
            for (const node_id u : chunk.list(i))
                if (u != chunk.node(i)) {
                    ++neighbors;
                    second += assignment[u];
                }
            if (neighbors != 0) ++kinds[{neighbors, std::max(second, neighbors - second)}];
        }
    double cut = 0, ends = 0;
    for (const auto& [kind, nodes] : kinds) {
        const auto [k, k0] = kind;
        const double draws = share * static_cast<double>(k), whole = std::floor(draws);
        const auto misplaced = [&](double drawn) {
            const wrong_or_tie odds = wrong_side(k, k0, std::min(k, static_cast<std::uint64_t>(drawn)));
            return odds.wrong + (tie == greedy_tie::even ? odds.tie / 2 : 0);
        };
        const double wrong = misplaced(whole) + (draws - whole) * (misplaced(whole + 1) - misplaced(whole));
        const auto mine = static_cast<double>(k0), others = static_cast<double>(k - k0);
        cut += static_cast<double>(nodes) * (others * (1 - wrong) + mine * wrong);
        ends += static_cast<double>(nodes * k);
    }
    return ends == 0 ? 0 : cut / ends; // both count an edge twice
}

} // namespace gneiss
