// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>

namespace gneiss::detail {

/// Throws errc::invalid_argument unless these are lists of neighbors: offsets [nodes + 1] that ascend from 0 to the
/// number of neighbors, lists of at most `longest`, neighbors in [0, nodes). O(nodes + edges).
template <std::integral Offset, std::integral Neighbor>
void check_lists(std::span<const Offset> offsets, std::span<const Neighbor> neighbors, std::uint64_t longest) {
    if (offsets.empty() || offsets.front() != 0 || std::cmp_not_equal(offsets.back(), neighbors.size()) ||
        !std::ranges::is_sorted(offsets))
        throw error(errc::invalid_argument,
            "offsets of lists of neighbors do not ascend from 0 to " + std::to_string(neighbors.size()) +
                ", the number of neighbors");
    for (std::size_t v = 0; v + 1 < offsets.size(); ++v)
        if (std::cmp_greater(offsets[v + 1] - offsets[v], longest))
            throw error(errc::invalid_argument,
                "node " + std::to_string(v) + " has " + std::to_string(offsets[v + 1] - offsets[v]) +
                    " neighbors, more than " + std::to_string(longest));
    const std::size_t nodes = offsets.size() - 1;
    for (const Neighbor u : neighbors)
        if (std::cmp_less(u, 0) || std::cmp_greater_equal(u, nodes))
            throw error(errc::invalid_argument,
                "neighbor " + std::to_string(u) + " of a graph of " + std::to_string(nodes) + " nodes");
}

} // namespace gneiss::detail
