// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/graph/concepts.hpp>

namespace gneiss {

/// Owning `edge_stream` over edges in memory. Chunks are views; nothing is copied.
template <node_id_type NodeId = node_id>
class edge_list {
public:
    using edge_type = basic_edge<NodeId>;

    /// Throws errc::invalid_argument for chunks of no edges. The ids of `edges` are below `nodes`, which those who
    /// build a graph from them check.
    edge_list(std::uint64_t nodes, std::vector<edge_type> edges, std::size_t chunk = 65536)
        : nodes_(nodes),
          edges_(std::move(edges)),
          chunk_(chunk) {
        if (chunk == 0) throw error(errc::invalid_argument, "a stream needs chunks of at least one edge");
    }

    [[nodiscard]] std::span<const edge_type> next() noexcept {
        const std::size_t size = std::min(chunk_, edges_.size() - at_);
        at_ += size;
        return std::span(edges_).subspan(at_ - size, size);
    }
    void rewind() noexcept { at_ = 0; }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }
    [[nodiscard]] edge_index edges() const noexcept { return edges_.size(); }

private:
    std::uint64_t nodes_;
    std::vector<edge_type> edges_;
    std::size_t chunk_, at_ = 0;
};

static_assert(edge_stream<edge_list<>>);

/// In-memory `scratch`, for tests and for graphs that fit.
template <node_id_type NodeId = node_id>
struct memory_scratch {
    /// Collects edges; models `edge_writer`.
    class writer {
    public:
        using edge_type = basic_edge<NodeId>;

        /// Starts an empty set of edges between `nodes` nodes.
        explicit writer(std::uint64_t nodes) noexcept : nodes_(nodes) {}
        void append(std::span<const edge_type> edges) { edges_.insert(edges_.end(), edges.begin(), edges.end()); }
        /// Returns the edges as a stream.
        [[nodiscard]] edge_list<NodeId> finish() && { return {nodes_, std::move(edges_)}; }

    private:
        std::uint64_t nodes_;
        std::vector<edge_type> edges_;
    };

    [[nodiscard]] writer create(std::uint64_t nodes) const { return writer(nodes); }
};

static_assert(scratch<memory_scratch<>>);

} // namespace gneiss
