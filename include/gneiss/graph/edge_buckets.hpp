// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/coo.hpp>

namespace gneiss {

/// End of the edges by which a block is indexed.
enum class edge_direction : std::uint8_t {
    out, ///< by source; positions are the bucket's edge ids
    in   ///< by destination; `edge_ids` maps to the outgoing order
};

/// Calls visit(edge_direction) for the bucket sides that contain neighbors in a direction, the outgoing one first.
template <class Visit>
void for_each_side(neighbor_direction d, Visit&& visit) {
    if (d != neighbor_direction::in) visit(edge_direction::out);
    if (d != neighbor_direction::out) visit(edge_direction::in);
}

/// View of one doubly compressed bucket of edges: lists only nodes with edges.
///
/// Ids are local to their partition. Edges of nodes[v] are positions starts[v] … starts[v + 1] − 1 of `neighbors`,
/// `relations` and `edge_ids`, ascending by (neighbor, relation, edge id). An empty bucket has empty spans, including
/// `starts`. Space: 2 words per listed node, 1 to 3 per edge. Source: MariusGNN, §6 (edge buckets in the buffer), with
/// offsets only for the nodes present, because p·|V| offsets would exceed the edges.
struct edge_block {
    std::span<const std::uint32_t> nodes{};     ///< ascending
    std::span<const std::uint32_t> starts{};    ///< nodes + 1 values, from 0 to the number of edges
    std::span<const std::uint32_t> neighbors{}; ///< local to the other partition
    std::span<const std::uint32_t> relations{}; ///< empty if the dataset has at most one relation
    std::span<const std::uint32_t> edge_ids{};  ///< for direction `in` only

    [[nodiscard]] std::size_t edges() const noexcept { return neighbors.size(); }
    /// Number of the edge at a position within the bucket.
    [[nodiscard]] std::uint32_t edge_id(std::uint32_t position) const noexcept {
        return edge_ids.empty() ? position : edge_ids[position];
    }
};

/// Expected shape of a block, against which its words are checked.
struct edge_block_shape {
    edge_direction direction = edge_direction::out; ///< end that lists are grouped by
    std::uint64_t edges = 0;                        ///< below 2³²
    std::uint64_t nodes = 0;                        ///< nodes with edges
    bool has_relations = false;                     ///< true if edges have relations
    std::uint64_t own_size = 0;                     ///< nodes of the partition of `nodes`
    std::uint64_t other_size = 0;                   ///< nodes of the partition of `neighbors`
    std::uint64_t relation_count = 0;               ///< relations of the graph

    /// Words of 4 bytes. Never overflows for edges, nodes < 2³².
    [[nodiscard]] constexpr std::uint64_t words() const noexcept {
        if (edges == 0) return 0;
        return 2 * nodes + 1 + edges * (1U + has_relations + (direction == edge_direction::in));
    }
};

/// Splits the words of a block into its arrays. Precondition: words.size() ≥ shape.words(). O(1).
[[nodiscard]] inline edge_block cut_block(
    std::span<const std::uint32_t> words, const edge_block_shape& shape) noexcept {
    edge_block block;
    if (shape.edges == 0) return block;
    const auto take = [&](std::uint64_t count) {
        const auto part = words.first(static_cast<std::size_t>(count));
        words = words.subspan(static_cast<std::size_t>(count));
        return part;
    };
    block.nodes = take(shape.nodes);
    block.starts = take(shape.nodes + 1);
    block.neighbors = take(shape.edges);
    if (shape.has_relations) block.relations = take(shape.edges);
    if (shape.direction == edge_direction::in) block.edge_ids = take(shape.edges);
    return block;
}

/// Describes the defect of a block, or returns an empty text. Checks ids in range, ascending nodes and starts, sorted
/// neighbors, and matching ends. One pass over the block, without allocation.
[[nodiscard]] inline std::string_view diagnose_block(const edge_block& block, const edge_block_shape& shape) noexcept {
    if (shape.edges == 0) return {};
    if (block.nodes.empty() || block.starts.front() != 0) return "starts do not begin with 0";
    if (block.starts.back() != shape.edges) return "starts do not end with the number of edges";
    for (std::size_t v = 0; v < block.nodes.size(); ++v) {
        if (block.nodes[v] >= shape.own_size || (v > 0 && block.nodes[v] <= block.nodes[v - 1]))
            return "nodes out of range or order";
        if (block.starts[v] >= block.starts[v + 1] || block.starts[v + 1] > shape.edges) return "starts out of order";
        for (std::size_t e = block.starts[v] + std::size_t{1}; e < block.starts[v + 1]; ++e)
            if (block.neighbors[e] < block.neighbors[e - 1]) return "neighbors out of order";
    }
    for (const std::uint32_t neighbor : block.neighbors)
        if (neighbor >= shape.other_size) return "neighbors out of range";
    for (const std::uint32_t relation : block.relations)
        if (relation >= shape.relation_count) return "relations out of range";
    for (const std::uint32_t id : block.edge_ids)
        if (id >= shape.edges) return "edge ids out of range";
    return {};
}

/// Writes the edges of an outgoing block in the order of their ids, with global ids. Precondition: `to` holds
/// block.edges(). `source_begin`, `destination_begin`: first nodes of the two partitions. O(edges).
template <node_id_type NodeId>
void decode(
    const edge_block& block, NodeId source_begin, NodeId destination_begin, std::span<basic_edge<NodeId>> to) noexcept {
    for (std::size_t v = 0; v < block.nodes.size(); ++v)
        for (std::size_t e = block.starts[v]; e < block.starts[v + 1]; ++e)
            to[e] = {static_cast<NodeId>(source_begin + block.nodes[v]),
                block.relations.empty() ? 0 : block.relations[e],
                static_cast<NodeId>(destination_begin + block.neighbors[e])};
}

/// Writes the edges of an incoming block: each edge goes to the index of its id.
template <node_id_type NodeId>
void decode_incoming(
    const edge_block& block, NodeId source_begin, NodeId destination_begin, std::span<basic_edge<NodeId>> to) noexcept {
    for (std::size_t v = 0; v < block.nodes.size(); ++v)
        for (std::size_t e = block.starts[v]; e < block.starts[v + 1]; ++e)
            to[block.edge_ids[e]] = {static_cast<NodeId>(source_begin + block.neighbors[e]),
                block.relations.empty() ? 0 : block.relations[e],
                static_cast<NodeId>(destination_begin + block.nodes[v])};
}

} // namespace gneiss
