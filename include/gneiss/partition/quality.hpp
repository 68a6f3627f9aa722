// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss {

/// Location of the neighbors of some nodes in a partitioned graph.
struct neighbor_counts {
    std::uint64_t nodes = 0;  ///< nodes counted
    edge_index neighbors = 0; ///< their neighbors, once per edge
    edge_index in_part = 0;   ///< those in the node's own part
    edge_index pinned = 0;    ///< those in another part that is pinned
    edge_index at_home = 0;   ///< those of a node in a pinned part, in its home
    edge_index of_pinned = 0; ///< those of a node without a home in a pinned part, in another part that is not pinned

    /// Mean number of neighbors per node; 0 without nodes.
    [[nodiscard]] double mean() const noexcept { return per_node(static_cast<double>(neighbors)); }
    /// Mean number of resident neighbors while the part of a node and `together` − 1 others, drawn at random from the
    /// `parts` that are not pinned, are in memory along with the pinned ones. The part of a node of a pinned part is
    /// its home, if it has one; else `together` are drawn at random. Exact: the mean over all choices. Throws
    /// errc::invalid_argument unless 1 ≤ together ≤ parts.
    [[nodiscard]] double kept(std::uint32_t together, std::uint32_t parts) const {
        if (together == 0 || together > parts)
            throw error(
                errc::invalid_argument, std::to_string(together) + " resident partitions of " + std::to_string(parts));
        const double there =
            parts == 1 ? 1 : (together - 1.) / (parts - 1.); // probability that another given part is drawn
        const edge_index others = neighbors - in_part - pinned - at_home - of_pinned;
        return per_node(static_cast<double>(in_part + pinned + at_home) + there * static_cast<double>(others) +
            static_cast<double>(together) / parts * static_cast<double>(of_pinned));
    }

private:
    [[nodiscard]] double per_node(double sum) const noexcept {
        return nodes == 0 ? 0 : sum / static_cast<double>(nodes);
    }
};

/// Quality of a partition. Imbalances are 0 for equal parts and for graphs with nothing to balance.
struct partition_quality {
    std::uint32_t parts = 0, parts_used = 0; ///< used: hold a node
    edge_index edges = 0, cut_edges = 0;     ///< undirected, once per occurrence, without self loops
    double cut = 0;                          ///< cut_edges / edges
    double node_imbalance = 0;               ///< nodes of the largest part over the mean, − 1
    double edge_imbalance = 0;               ///< the same for neighbors
    double label_imbalance = 0; ///< maximum of (count − ⌈n/k⌉) / (n/k) over parts and labels, n the nodes of the label
    neighbor_counts all{};      ///< for all nodes
    neighbor_counts training{}; ///< for nodes with a label
};

/// Measures a partition in one pass of the graph.
///
/// \param assignment  [nodes] the part of each node
/// \param labels      [nodes] or empty; `unlabeled`: not a training node
/// \param pinned      number of leading parts that hold hubs and stay in memory
/// \param homes       [nodes] or empty: part with which a node of a pinned part trains, or a pinned one for none
///
/// Cost: O(nodes + arcs), a random read of two bytes per arc. Memory: 16 bytes per part, 8 per part and label. Errors:
/// errc::invalid_argument for a wrong number of parts or labels, or for zero parts; errc::out_of_range for a part
/// beyond `parts`; errors of the stream.
/// Source: `kept` is Table 4.3 of the Hanoi thesis, which draws nodes and not parts.
///
/// From examples/28_partition.cpp:
/// \snippet 28_partition.cpp partition
template <adjacency_stream Stream>
[[nodiscard]] partition_quality measure_partition(Stream& stream, std::span<const partition_id16> assignment,
    std::uint32_t parts, std::span<const class_id> labels = {}, std::uint32_t pinned = 0,
    std::span<const partition_id16> homes = {}) {
    const std::uint64_t nodes = stream.nodes();
    check_request({.parts = parts, .labels = labels}, nodes);
    check_assignment(assignment, parts, nodes);
    if (!homes.empty()) check_assignment(homes, parts, nodes);
    const std::vector<std::uint64_t> of_label = label_counts(labels);
    const std::size_t classes = of_label.size() - 1; // the last entry counts nodes without a label
    std::vector<std::uint64_t> degrees(parts), label_sizes(parts * classes);
    partition_quality seen{.parts = parts};
    const auto add = [](neighbor_counts& to, const neighbor_counts& node) {
        to.nodes += node.nodes;
        to.neighbors += node.neighbors;
        to.in_part += node.in_part;
        to.pinned += node.pinned;
        to.at_home += node.at_home;
        to.of_pinned += node.of_pinned;
    };
    stream.rewind();
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next())
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            const node_id v = chunk.node(i);
            const partition_id16 mine = assignment[v];
            edge_index in_part = 0, loops = 0, on_pinned = 0;
            for (const node_id u : chunk.list(i)) { // branch-free: reads of unrelated nodes overlap
                in_part += assignment[u] == mine;
                on_pinned += assignment[u] < pinned;
                loops += u == v;
            }
            neighbor_counts node{
                .nodes = 1, .neighbors = chunk.list(i).size() - loops, .in_part = in_part - loops, .pinned = on_pinned};
            if (mine < pinned) {
                node.pinned -= in_part;
                if (!homes.empty() && homes[v] >= pinned)
                    for (const node_id u : chunk.list(i)) node.at_home += assignment[u] == homes[v];
                else
                    node.of_pinned = node.neighbors - node.in_part - node.pinned;
            }
            degrees[mine] += node.neighbors;
            add(seen.all, node);
            if (labels.empty() || labels[v] == unlabeled) continue;
            add(seen.training, node);
            ++label_sizes[mine * classes + labels[v]];
        }
    seen.edges = seen.all.neighbors / 2;
    seen.cut_edges = (seen.all.neighbors - seen.all.in_part) / 2;
    if (seen.edges != 0) seen.cut = static_cast<double>(seen.cut_edges) / static_cast<double>(seen.edges);

    const auto above_mean = [parts](std::span<const std::uint64_t> weights, std::uint64_t total) {
        return total == 0 ? 0 : static_cast<double>(std::ranges::max(weights)) * parts / static_cast<double>(total) - 1;
    };
    const std::vector<std::uint64_t> sizes = part_sizes(assignment, parts);
    seen.parts_used = parts - static_cast<std::uint32_t>(std::ranges::count(sizes, std::uint64_t{0}));
    seen.node_imbalance = above_mean(sizes, nodes);
    seen.edge_imbalance = above_mean(degrees, seen.all.neighbors);
    for (std::size_t i = 0; i < label_sizes.size(); ++i) {
        const std::uint64_t total = of_label[i % classes], fair = ceil_div(total, std::uint64_t{parts});
        if (label_sizes[i] > fair)
            seen.label_imbalance = std::max(
                seen.label_imbalance, static_cast<double>(label_sizes[i] - fair) * parts / static_cast<double>(total));
    }
    return seen;
}

} // namespace gneiss
