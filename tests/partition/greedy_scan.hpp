#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace partition_test {

/// Reference implementation of the streamed partitioners: every part is scored for every node, and loads are recounted
/// each time. `score(group, neighbors, load)` and, for equal scores, `load_penalty(group, load)`. Without `by_label`
/// all nodes are one group whose load is the weight.
template <class Score, class Burden>
std::vector<gneiss::partition_id16> greedy_by_scan(const gneiss::symmetric_csr& graph,
    const gneiss::partition_request& request, std::uint64_t cap, bool by_label,
    std::span<const gneiss::partition_id16> initial, std::uint32_t passes, Score&& score, Burden&& load_penalty) {
    using namespace gneiss;
    const std::uint32_t k = request.parts;
    const std::size_t n = graph.nodes();
    std::vector<partition_id16> part(n, no_partition);
    std::copy(initial.begin(), initial.end(), part.begin());
    const std::vector<std::uint64_t> counts = by_label ? label_counts(request.labels) : std::vector<std::uint64_t>{n};
    const auto caps = label_caps(counts, k, by_label ? request.label_cap : 0);
    const auto group_of = [&](std::size_t v) {
        return !by_label ? 0 : request.labels[v] == unlabeled ? counts.size() - 1 : std::size_t{request.labels[v]};
    };
    // Places reserved for each label: its nodes are dealt in turn, one label after the other.
    std::vector kept(counts.size(), std::vector<std::uint64_t>(k));
    if (by_label && request.label_cap != 0 && request.balance == balance_by::nodes)
        for (std::uint64_t g = 0, turn = 0; g < counts.size(); ++g)
            for (std::uint64_t i = 0; i < counts[g]; ++i) ++kept[g][turn++ % k];

    for (std::uint32_t pass = 0; pass < passes; ++pass)
        for (node_id v = 0; v < n; ++v) {
            part[v] = no_partition;
            const std::size_t mine = group_of(v);
            const std::uint64_t weight = node_weight(request.balance, graph.degree(v));
            std::vector counted(counts.size(), std::vector<std::uint64_t>(k));
            std::vector<std::uint64_t> weights(k);
            std::vector<std::uint32_t> neighbors(k);
            for (node_id u = 0; u < n; ++u)
                if (part[u] != no_partition) {
                    ++counted[group_of(u)][part[u]];
                    weights[part[u]] += node_weight(request.balance, graph.degree(u));
                }
            for (const node_id u : graph.list(v))
                if (part[u] != no_partition) ++neighbors[part[u]];
            std::uint32_t best = k, fewest = k, lightest = 0;
            for (std::uint32_t p = 0; p < k; ++p) {
                if (weights[p] < weights[lightest]) lightest = p;
                if (weights[p] + weight <= cap && (fewest == k || counted[mine][p] < counted[mine][fewest])) fewest = p;
                if (counted[mine][p] >= caps[mine]) continue;
                std::uint64_t promised = 0; // places reserved for labels and not yet taken
                for (std::size_t g = 0; g < counts.size(); ++g)
                    promised += kept[g][p] - std::min(kept[g][p], counted[g][p]);
                if (counted[mine][p] >= kept[mine][p] && weights[p] + promised + weight > cap) continue;
                const auto load = [&](std::uint32_t q) { return by_label ? counted[mine][q] : weights[q]; };
                if (best == k) {
                    best = p;
                    continue;
                }
                const double here = score(mine, neighbors[p], load(p)),
                             there = score(mine, neighbors[best], load(best));
                if (here > there || (here == there && load_penalty(mine, load(p)) < load_penalty(mine, load(best))))
                    best = p;
            }
            part[v] = static_cast<partition_id16>(best != k ? best : fewest != k ? fewest : lightest);
        }
    return part;
}

} // namespace partition_test
