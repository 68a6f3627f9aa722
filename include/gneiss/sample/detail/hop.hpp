// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/excluded_positions.hpp>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/detail/node_numbering.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/neighbor_options.hpp>

namespace gneiss::detail {

/// Draws one hop of a sample and numbers it: the neighbors of one request while others are drawn. Keeps its scratch.
template <node_id_type NodeId>
class hop_sampler {
public:
    /// Draws the neighbors of nodes `first_node`, `first_node` + 1, … of `numbering`, and numbers them. O(edges).
    template <neighbor_source G, executor E, class Weight>
    void sample(const G& graph, std::size_t first_node, const hop_fanout& fanout, random_key key,
        const neighbor_options& options, const excluded_positions<NodeId>& excluded, const Weight& weight,
        const E& executor, node_numbering<NodeId>& numbering, hop_edges<NodeId>& to) {
        const auto known = numbering.nodes().subspan(first_node);
        targets_.assign(known.begin(), known.end()); // numbering moves its own
        const auto number = [&](std::size_t first, std::size_t count, const auto& on) {
            to.numbers.resize(to.neighbors.size());
            numbering.number(std::span<const NodeId>(to.neighbors).subspan(first, count),
                std::span(to.numbers).subspan(first, count), on);
        };
        drawer_.draw(
            graph, std::span<const NodeId>(targets_), fanout, key, options, excluded, weight, executor, to, number);
        to.numbers.resize(to.neighbors.size()); // of a hop without nodes, too
    }

private:
    std::vector<NodeId> targets_;
    hop_drawer<NodeId> drawer_;
};

} // namespace gneiss::detail
