// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss {

/// Maximum weight of a part: max(⌈total/k⌉, ⌊(1 + imbalance) total/k⌋). Parts of this weight hold all nodes of weight 1
/// in any order. An infinite imbalance gives `total`. Throws errc::invalid_argument for 0 parts, or an imbalance that
/// is not at least 0.
[[nodiscard]] inline std::uint64_t max_weight(std::uint64_t total, std::uint32_t parts, double imbalance) {
    if (parts == 0) throw error(errc::invalid_argument, "at least one part is needed", {.field = "parts"});
    if (!(imbalance >= 0))
        throw error(errc::invalid_argument, "a number of at least 0 is needed", {.field = "imbalance"});
    if (total == 0) return 0;
    const double wanted = std::floor((1 + imbalance) * static_cast<double>(total) / parts);
    if (wanted >= static_cast<double>(total)) return total;
    return std::max(ceil_div(total, std::uint64_t{parts}), static_cast<std::uint64_t>(wanted));
}

/// Weight of a node whose list has `degree` neighbors.
[[nodiscard]] constexpr std::uint64_t node_weight(balance_by balance, std::size_t degree) noexcept {
    return balance == balance_by::nodes ? 1 : std::uint64_t{degree} + 1;
}

/// Total weight of all nodes.
[[nodiscard]] constexpr std::uint64_t total_weight(balance_by balance, std::uint64_t nodes, edge_index arcs) noexcept {
    return balance == balance_by::nodes ? nodes : nodes + arcs;
}

/// Counts the nodes of each label: [L + 1], unlabeled nodes last; L = 0 without labels. O(nodes); 8 bytes for each
/// label up to the largest.
[[nodiscard]] inline std::vector<std::uint64_t> label_counts(std::span<const class_id> labels) {
    std::vector<std::uint64_t> counts(1);
    for (const class_id label : labels) {
        if (label == unlabeled) {
            ++counts.back();
            continue;
        }
        if (label + std::size_t{1} >= counts.size()) {
            const std::uint64_t without = std::exchange(counts.back(), 0);
            counts.resize(label + std::size_t{2});
            counts.back() = without;
        }
        ++counts[label];
    }
    return counts;
}

/// Maximum number of nodes of each label in a part, for total `counts`: max(⌈n/k⌉, ⌊cap · n/k⌋). cap 0: unlimited.
/// Throws errc::invalid_argument for 0 parts, or another cap below 1.
[[nodiscard]] inline std::vector<std::uint64_t> label_caps(
    std::span<const std::uint64_t> counts, std::uint32_t parts, double cap) {
    std::vector<std::uint64_t> caps(counts.begin(), counts.end());
    if (cap != 0)
        for (std::uint64_t& n : caps) n = max_weight(n, parts, cap - 1);
    return caps;
}

/// Throws errc::invalid_argument, naming the field, for a request that no partitioner can satisfy on `nodes` nodes.
inline void check_request(const partition_request& request, std::uint64_t nodes) {
    const auto check = [](bool good, const char* field, const std::string& what) {
        if (!good) throw error(errc::invalid_argument, what, {.field = field});
    };
    check(request.parts != 0 && request.parts <= max_partition_count, "parts",
        "the number of parts must be from 1 to " + std::to_string(max_partition_count) + ", not " +
            std::to_string(request.parts));
    check(request.imbalance >= 0, "imbalance", "a number of at least 0 is needed");
    check(request.label_cap == 0 || request.label_cap >= 1, "label_cap", "a number of at least 1 is needed, or 0");
    check(request.labels.empty() || request.labels.size() == nodes, "labels",
        std::to_string(request.labels.size()) + " labels for " + std::to_string(nodes) + " nodes");
    check(nodes <= std::uint64_t{1} << 32, "nodes", "more nodes than the node id can number");
}

/// Throws errc::unsupported for a label cap, because the partitioner called `name` ignores labels.
inline void check_without_labels(const partition_request& request, const std::string& name) {
    if (request.label_cap != 0 && !request.labels.empty())
        throw error(errc::unsupported, name + " does not balance labels; gap does", {.field = "label_cap"});
}

/// Throws errc::canceled if a stop was requested.
inline void check_stop(const std::stop_token& stop) {
    if (stop.stop_requested()) throw error(errc::canceled, "partitioning was stopped");
}
/// Throws errc::canceled if the request is to stop.
inline void check_stop(const partition_request& request) { check_stop(request.stop); }

/// Throws unless every node has a part below `parts`: errc::invalid_argument for a wrong number of nodes,
/// errc::out_of_range for a part. O(nodes).
inline void check_assignment(std::span<const partition_id16> assignment, std::uint32_t parts, std::uint64_t nodes) {
    if (assignment.size() != nodes)
        throw error(errc::invalid_argument,
            std::to_string(assignment.size()) + " nodes have a part, of " + std::to_string(nodes));
    for (std::size_t v = 0; v < assignment.size(); ++v)
        if (assignment[v] >= parts)
            throw error(errc::out_of_range,
                "node " + std::to_string(v) + " is in part " + std::to_string(assignment[v]) + " of " +
                    std::to_string(parts));
}

namespace detail {

/// Adds the weight of a node to that of its part; a node without a part adds nothing. Throws errc::out_of_range for
/// another part.
inline void add_weight(std::vector<std::uint64_t>& weights, partition_id16 part, std::uint64_t weight) {
    if (part < weights.size())
        weights[part] += weight;
    else if (part != no_partition)
        throw error(
            errc::out_of_range, "a node is in part " + std::to_string(part) + " of " + std::to_string(weights.size()));
}

} // namespace detail

/// Counts the nodes of each part: [parts]. Nodes without a part are not counted. Throws errc::out_of_range for a part
/// beyond `parts`. O(nodes).
[[nodiscard]] inline std::vector<std::uint64_t> part_sizes(
    std::span<const partition_id16> assignment, std::uint32_t parts) {
    std::vector<std::uint64_t> sizes(parts);
    for (const partition_id16 p : assignment) detail::add_weight(sizes, p, 1);
    return sizes;
}

/// Sums the weight of each part: [parts]. One pass of the stream from its beginning. Errors as `part_sizes`;
/// errc::invalid_argument unless every node of the stream has a part or `no_partition`.
template <adjacency_stream Stream>
[[nodiscard]] std::vector<std::uint64_t> part_weights(
    Stream& stream, std::span<const partition_id16> assignment, std::uint32_t parts, balance_by balance) {
    if (assignment.size() != stream.nodes())
        throw error(errc::invalid_argument,
            std::to_string(assignment.size()) + " nodes have a part, of " + std::to_string(stream.nodes()));
    if (balance == balance_by::nodes) return part_sizes(assignment, parts);
    std::vector<std::uint64_t> weights(parts);
    stream.rewind();
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next())
        for (std::size_t i = 0; i < chunk.size(); ++i)
            detail::add_weight(
                weights, assignment[chunk.node(i)], node_weight(balance, chunk.offsets[i + 1] - chunk.offsets[i]));
    return weights;
}

} // namespace gneiss
