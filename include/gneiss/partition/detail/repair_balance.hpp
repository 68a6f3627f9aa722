// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/greedy.hpp>
#include <gneiss/partition/detail/load_table.hpp>

namespace gneiss::detail {

/// Rule that prefers the part with most neighbors, then the lightest.
struct majority_rule {
    [[nodiscard]] double load_penalty(std::size_t, std::uint64_t load) const noexcept {
        return static_cast<double>(load);
    }
    [[nodiscard]] static double score(std::uint32_t neighbors, double load_penalty) noexcept {
        return neighbors != 0 && load_penalty == load_table::infinite ? -load_penalty : neighbors;
    }
};

/// Maximum weight of a part, and of each label in it.
[[nodiscard]] inline greedy_limits limits_of(std::uint64_t nodes, edge_index arcs, const partition_request& request) {
    greedy_limits limits{
        .cap = max_weight(total_weight(request.balance, nodes, arcs), request.parts, request.imbalance)};
    if (request.labels.empty() || request.label_cap == 0) return limits;
    limits.labels = request.labels;
    limits.counts = label_counts(request.labels);
    limits.label_caps = label_caps(limits.counts, request.parts, request.label_cap);
    return limits;
}

/// Enforces caps in one pass that moves every node to its best part with room; see `greedy_engine`.
template <adjacency_stream Stream>
[[nodiscard]] std::vector<partition_id16> repair_balance(
    Stream& stream, std::vector<partition_id16> parts, const partition_request& request) {
    greedy_engine<majority_rule> engine(
        request, stream.nodes(), majority_rule{}, limits_of(stream.nodes(), stream.arcs(), request));
    engine.start_from(stream, parts);
    free_memory(parts);
    engine.pass(stream, [&](std::uint64_t) { check_stop(request); });
    return std::move(engine).take();
}

} // namespace gneiss::detail
