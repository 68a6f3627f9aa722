// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/sample/neighbor_options.hpp>

namespace gneiss {

/// Draws the neighbors of some nodes at one hop of a batch: those that `neighbor_sampler` and `dense_sampler` draw for
/// them there, without the rest of the sample.
///
/// The draw of a node is a pure function of (seed, batch key, hop, id, list of the node, options), so that the owner of
/// a node draws for another process; `neighbor_sample_writer` and `dense_sample_writer` put the hops together.
/// Cost: O(drawn edges) time and memory. Memory is kept: use one drawer per thread.
template <node_id_type NodeId = node_id>
class neighbor_drawer {
public:
    /// Throws `invalid_argument` for a fan-out without hops or an invalid one.
    neighbor_drawer(neighbor_options options, std::uint64_t seed) : options_(std::move(options)), seed_(seed) {
        validate(options_.fanout, std::max<std::size_t>(options_.fanout.size(), 1));
    }

    [[nodiscard]] const neighbor_options& options() const noexcept { return options_; }

    /// Draws for nodes, in any order, at hop `hop`, from 0 at the seeds. Throws `out_of_range` for a hop beyond the
    /// fan-out, a node beyond the graph, or 2³¹ edges.
    template <neighbor_source G, executor E>
    void draw(
        const batch_key& batch, std::size_t hop, const G& graph, std::span<const NodeId> nodes, const E& executor) {
        if (hop >= options_.fanout.size())
            throw error(errc::out_of_range,
                "hop " + std::to_string(hop) + " of a fan-out of " + std::to_string(options_.fanout.size()) + " hops");
        for (const NodeId node : nodes)
            if (node >= graph.nodes())
                throw error(errc::out_of_range,
                    "node " + std::to_string(node) + " of a graph of " + std::to_string(graph.nodes()) + " nodes");
        drawer_.draw(graph, nodes, options_.fanout[hop], detail::neighbor_key(seed_, batch).with(hop), options_, {},
            equal_weights{}, executor, drawn_, [](std::size_t, std::size_t, const auto&) {});
    }

    // The last draw; valid until the next one.

    /// [nodes + 1] into the other arrays, ascending from 0
    [[nodiscard]] std::span<const std::uint32_t> offsets() const noexcept { return drawn_.offsets; }
    [[nodiscard]] std::span<const NodeId> neighbors() const noexcept { return drawn_.neighbors; }      ///< ids
    [[nodiscard]] std::span<const relation_id> relations() const noexcept { return drawn_.relations; } ///< if wanted
    [[nodiscard]] std::span<const edge_index> edge_ids() const noexcept { return drawn_.edge_ids; }    ///< if wanted

private:
    neighbor_options options_;
    std::uint64_t seed_;
    detail::hop_drawer<NodeId> drawer_;
    detail::hop_edges<NodeId> drawn_;
};

} // namespace gneiss
