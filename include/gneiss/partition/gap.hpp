// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/fennel_rule.hpp>
#include <gneiss/partition/detail/greedy.hpp>

namespace gneiss {

/// GAP, Hanoi's graph-aware partitioner: FENNEL with each label balanced separately.
///
/// A node of label ℓ goes where neighbors − αγ (s/μ)^(γ−1) is highest, where s is the number of nodes of label ℓ in the
/// part and μ their share of all nodes. Ties go to the part with the fewest of them, then to the first. Unlabeled nodes
/// form one more label. α is FENNEL's. Without labels this is `fennel_partitioner`.
///
///     gap_partitioner{.passes = 2}(stream, {.parts = 1024, .labels = labels, .label_cap = 1.05}, executor);
///
/// The penalty alone is soft. The thesis has no cap, which is request.label_cap = 0 with an infinite request.imbalance;
/// labels may then end far from balanced. Balanced by nodes, both caps are exact, also for unlabeled nodes. Balanced by
/// edges, the cap of a part is on its weight, and penalties still count nodes; a label exceeds its cap where no part
/// open to it has room (`detail::greedy_engine`).
///
/// Cost: O(arcs + nodes log k) per pass: the best part is the one of lowest penalty, at the head of its label's ordered
/// set, or one of the neighbors'. Memory: 2 bytes per node, 20 per part and label, 256 KiB.
/// Errors: errc::invalid_argument, naming the option.
/// Source: Hanoi (thesis, section 4.3.2, equation 4.2, algorithm 2).
///
/// From examples/28_partition.cpp:
/// \snippet 28_partition.cpp partition
struct gap_partitioner {
    double gamma = 1.5;                        ///< > 1: steepness of the balance penalty
    std::uint32_t passes = 1;                  ///< later passes move nodes one by one
    std::span<const partition_id16> initial{}; ///< [nodes] or empty: parts to refine, line 1 of the algorithm

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E&) const {
        const std::uint64_t nodes = stream.nodes(), total = total_weight(request.balance, nodes, stream.arcs());
        check_request(request, nodes);
        detail::greedy_limits limits{
            .cap = max_weight(total, request.parts, request.imbalance), .labels = request.labels};
        if (!request.labels.empty()) limits.counts = label_counts(request.labels);
        if (request.label_cap != 0 && !request.labels.empty())
            limits.label_caps = label_caps(limits.counts, request.parts, request.label_cap);
        const detail::fennel_rule rule(
            gamma, request.labels.empty() ? total : nodes, stream.arcs(), request.parts, limits.counts);
        return detail::run_greedy(stream, request, rule, std::move(limits), initial, passes);
    }

    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index, const partition_request& request) const {
        return detail::greedy_bytes(nodes, request.labels.empty() ? 1 : label_counts(request.labels).size(), request);
    }
};

static_assert(partitioner<gap_partitioner>);

} // namespace gneiss
