// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/symmetric.hpp>

namespace gneiss::detail {

/// Neighbors of each node by the edges of one chunk: 4 bytes per node of the graph, 16 per edge of the largest chunk.
class chunk_lists {
public:
    /// \param edges  maximum edges of a chunk
    chunk_lists(std::uint64_t nodes, std::size_t edges) : offsets_(static_cast<std::size_t>(nodes) + 2) {
        ends_.reserve(edges);
        neighbors_.reserve(2 * edges);
    }

    /// Adds an edge to the next chunk. Ignores self loops.
    void add(node_id u, node_id v) {
        if (u >= nodes() || v >= nodes())
            throw error(errc::out_of_range,
                "edge " + std::to_string(u) + " - " + std::to_string(v) + " of a graph of " + std::to_string(nodes()) +
                    " nodes");
        if (u != v) ends_.emplace_back(u, v);
    }
    /// Builds the lists of the edges added since the last call. O(nodes + edges).
    void make() {
        offsets_.assign(offsets_.size(), 0); // list v begins at v + 1 until all are filled
        for (const auto& [u, v] : ends_) {
            ++offsets_[u + std::size_t{2}];
            ++offsets_[v + std::size_t{2}];
        }
        for (std::size_t v = 2; v < offsets_.size(); ++v) offsets_[v] += offsets_[v - 1];
        neighbors_.resize(2 * ends_.size());
        for (const auto& [u, v] : ends_) {
            neighbors_[offsets_[u + std::size_t{1}]++] = v;
            neighbors_[offsets_[v + std::size_t{1}]++] = u;
        }
        ends_.clear();
    }

    [[nodiscard]] std::size_t nodes() const noexcept { return offsets_.size() - 2; }
    [[nodiscard]] std::span<const node_id> list(node_id v) const noexcept {
        return std::span(neighbors_).subspan(offsets_[v], offsets_[v + std::size_t{1}] - offsets_[v]);
    }
    /// Nodes with a neighbor, ascending.
    [[nodiscard]] std::vector<node_id> seen() const {
        std::vector<node_id> nodes_seen;
        for (std::size_t v = 0; v < nodes(); ++v)
            if (offsets_[v] != offsets_[v + 1]) nodes_seen.push_back(static_cast<node_id>(v));
        return nodes_seen;
    }
    /// Returns the graph of the chunk: node i is members[i] of `seen`. Memory: 8 bytes per member and per edge.
    [[nodiscard]] symmetric_csr graph(std::span<const node_id> members) const {
        const ranked_bitmap place(nodes(), members);
        symmetric_csr result;
        result.offsets.reserve(members.size() + 1);
        result.neighbors.reserve(neighbors_.size());
        for (const node_id v : members) {
            for (const node_id u : list(v)) result.neighbors.push_back(*place.rank(u));
            result.offsets.push_back(result.neighbors.size());
        }
        return result;
    }

private:
    std::vector<std::pair<node_id, node_id>> ends_;
    std::vector<std::uint32_t> offsets_; // [nodes + 2]
    std::vector<node_id> neighbors_;
};

} // namespace gneiss::detail
