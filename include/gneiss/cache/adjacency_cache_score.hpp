// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Ranks nodes by the benefit of caching their adjacency: by value per entry, descending; then by entries, ascending;
/// then by id. Omits nodes without entries.
///
/// With the degrees of the other direction as values this is the ratio of Aligraph, which Ginex uses: a node with many
/// outgoing edges is reached often along incoming edges, and its incoming edges are the cost of its list. The ratio
/// carries no information where all edges go both ways; counted visits (graph/visit_counter.hpp) do.
///
/// \param value    [nodes] requests per list, in any unit
/// \param entries  [nodes] length of each list
///
/// Exact in integers, so the order is the same on every machine. O(n log n); 12 bytes per node plus the result.
/// Source: Ginex, section 3.2.
template <executor E = serial_executor>
[[nodiscard]] std::vector<node_id> rank_lists(
    std::span<const std::uint32_t> value, std::span<const std::uint32_t> entries, const E& executor = {}) {
    if (value.size() != entries.size())
        throw error(errc::invalid_argument, "values and entries of different numbers of nodes");
    struct list {
        std::uint32_t value, entries;
        node_id node;
    };
    std::vector<list> lists;
    lists.reserve(entries.size() - static_cast<std::size_t>(std::ranges::count(entries, 0U)));
    for (std::size_t v = 0; v < value.size(); ++v)
        if (entries[v] != 0) lists.push_back({value[v], entries[v], static_cast<node_id>(v)});
    parallel_sort(executor, lists, [](const list& a, const list& b) {
        const std::uint64_t left = std::uint64_t{a.value} * b.entries, right = std::uint64_t{b.value} * a.entries;
        if (left != right) return left > right;
        return a.entries != b.entries ? a.entries < b.entries : a.node < b.node;
    });
    std::vector<node_id> ranked(lists.size());
    std::ranges::transform(lists, ranked.begin(), &list::node);
    return ranked;
}

/// Selects the lists that fit into `bytes`, in the order of `ranked`, skipping lists longer than the remaining space.
/// Returns them ascending. A list takes `entries[v] · entry_bytes + list_bytes`. O(n log n). Throws errc::out_of_range
/// for a node beyond `entries`.
[[nodiscard]] inline std::vector<node_id> choose_lists(std::span<const node_id> ranked,
    std::span<const std::uint32_t> entries, std::uint64_t bytes, std::uint64_t entry_bytes, std::uint64_t list_bytes) {
    std::vector<node_id> chosen;
    for (const node_id v : ranked) {
        if (v >= entries.size())
            throw error(errc::out_of_range,
                "list " + std::to_string(v) + " of " + std::to_string(entries.size()) + " is ranked");
        const std::uint64_t needed = entries[v] * entry_bytes + list_bytes;
        if (needed > bytes) continue;
        bytes -= needed;
        chosen.push_back(v);
    }
    std::ranges::sort(chosen);
    return chosen;
}

} // namespace gneiss
