// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/detail/repeated_row.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Cache policy that always holds the same rows: the first of a ranking.
///
///     static_cache policy(rank_by(count_visits(profile, nodes), capacity), capacity);
///     const cache_counts counts = simulate(policy, trace);
///
/// Ranked by out-degree it is PaGraph's cache (Lin et al., SoCC'20), the baseline of Ginex. Ranked by visits of a
/// profiled stretch it reflects the sampler's access pattern. Cost of `next`: O(1).
///
/// From examples/17_belady.cpp:
/// \snippet 17_belady.cpp compare
class static_cache {
public:
    /// `ranked`: distinct rows, most wanted first; entries after the first `capacity` are ignored. Throws
    /// errc::invalid_argument for a row that is named twice. At most O(capacity log capacity).
    static_cache(std::span<const node_id> ranked, std::size_t capacity)
        : capacity_(capacity),
          rows_(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(std::min(capacity, ranked.size()))) {
        if (const auto twice = detail::repeated_row(rows_))
            throw error(errc::invalid_argument, "a cache is to hold row " + std::to_string(*twice) + " twice");
    }

    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
    [[nodiscard]] std::span<const node_id> initial() const noexcept { return rows_; }
    static void next(std::span<const node_id>, change_set& out) noexcept { out.clear(); }

private:
    std::size_t capacity_;
    std::vector<node_id> rows_;
};

static_assert(cache_policy<static_cache>);

/// Returns the `count` rows with the highest scores, highest first, ties by id; scores[id] may be degrees or visits.
/// Cost: O(nodes + count log count); temporary memory 4 bytes per node.
template <std::ranges::random_access_range Scores>
[[nodiscard]] std::vector<node_id> rank_by(const Scores& scores, std::size_t count) {
    std::vector<node_id> ids(std::ranges::size(scores));
    std::iota(ids.begin(), ids.end(), node_id{0});
    const auto better = [&](node_id a, node_id b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; };
    const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
    if (end != ids.end()) std::nth_element(ids.begin(), end, ids.end(), better);
    std::sort(ids.begin(), end, better);
    return {ids.begin(), end};
}

/// Counts the requests for each row by the batches of a trace. Throws errc::out_of_range for a row beyond `nodes`.
/// O(nodes + accesses).
template <access_trace Trace>
[[nodiscard]] std::vector<std::uint32_t> count_visits(Trace& trace, std::uint64_t nodes) {
    std::vector<std::uint32_t> visits(static_cast<std::size_t>(nodes), 0);
    std::vector<node_id> room;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch)
        for (const node_id id : trace.read(batch, room)) {
            if (id >= nodes)
                throw error(errc::out_of_range,
                    "row " + std::to_string(id) + " of a trace over " + std::to_string(nodes) + " rows");
            ++visits[id];
        }
    return visits;
}

} // namespace gneiss
