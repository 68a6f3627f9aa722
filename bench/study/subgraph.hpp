// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/sample/layer_view.hpp>

namespace study {

/// Some nodes of a graph and all edges among them.
struct subgraph {
    std::vector<gneiss::node_id> nodes{}; ///< a batch, its neighbors, and nodes farther away
    std::size_t batch = 0;                ///< size of the batch, the first nodes
    std::size_t direct = 0;               ///< size of the batch and its neighbors
    gneiss::symmetric_csr among{};        ///< by position in `nodes`

    /// The input of a model's `layers` layers: all nodes of the subgraph at first, the batch at last. A sample for
    /// `layer_stack`.
    struct sample {
        const subgraph& of;
        std::size_t count;

        [[nodiscard]] std::size_t layers() const noexcept { return count; }
        [[nodiscard]] gneiss::layer_view layer(
            std::size_t i, std::vector<std::uint32_t>& offsets, std::vector<std::uint32_t>&) const {
            const std::size_t targets = i + 1 == count ? of.batch : of.nodes.size();
            offsets.assign(
                of.among.offsets.begin(), of.among.offsets.begin() + static_cast<std::ptrdiff_t>(targets) + 1);
            return {.targets = targets,
                .sources = of.nodes.size(),
                .offsets = offsets,
                .neighbors = std::span(of.among.neighbors).first(offsets.back())};
        }
    };
    [[nodiscard]] sample of_layers(std::size_t layers) const noexcept { return {*this, layers}; }
};

/// Ranking of nodes around a batch. Source: Hanoi, thesis, section 4.3.1.
enum class neighborhood_policy : std::uint8_t {
    random,   ///< any
    neighbor, ///< neighbors of the batch, then any
    influence ///< by the end of L-step lazy random walks from the batch: equation 4.1
};

/// Cuts subgraphs out of a graph in memory. Memory: 4 bytes per node. Not thread-safe.
class subgraph_maker {
public:
    /// \param graph  outlives this; fewer than 2³² − 1 nodes
    explicit subgraph_maker(const gneiss::symmetric_csr& graph)
        : graph_(graph),
          position_(static_cast<std::size_t>(graph.nodes()), nowhere) {}

    /// Returns all nodes within `hops` edges of the batch. O(edges at the nodes). Precondition: distinct nodes.
    [[nodiscard]] subgraph around(std::span<const gneiss::node_id> batch, std::uint32_t hops) {
        subgraph result{.nodes = {batch.begin(), batch.end()}, .batch = batch.size(), .direct = batch.size()};
        for (std::size_t i = 0; i < result.batch; ++i) position_[result.nodes[i]] = static_cast<std::uint32_t>(i);
        for (std::size_t hop = 0, from = 0; hop < hops; ++hop) {
            const std::size_t end = result.nodes.size();
            for (; from < end; ++from)
                for (const gneiss::node_id u : graph_.list(result.nodes[from]))
                    if (position_[u] == nowhere) {
                        position_[u] = static_cast<std::uint32_t>(result.nodes.size());
                        result.nodes.push_back(u);
                    }
            if (hop == 0) result.direct = result.nodes.size();
        }
        connect(result);
        return result;
    }

    /// Returns the batch of `of` and the `count` highest-ranked other nodes. `key` breaks ties at random.
    [[nodiscard]] subgraph best(const subgraph& of, std::size_t count, neighborhood_policy policy, std::uint32_t hops,
        const gneiss::random_key& key) {
        const std::vector<float> scores = scores_of(of, policy, hops, key);
        const auto others = std::span(scores).subspan(of.batch);
        std::vector<gneiss::node_id> chosen = gneiss::most_influential(others, count);
        std::ranges::sort(chosen); // still by distance
        subgraph result{.nodes = {of.nodes.begin(), of.nodes.begin() + static_cast<std::ptrdiff_t>(of.batch)},
            .batch = of.batch,
            .direct = of.batch};
        for (const gneiss::node_id i : chosen) {
            result.nodes.push_back(of.nodes[of.batch + i]);
            result.direct += of.batch + i < of.direct;
        }
        for (std::size_t i = 0; i < result.nodes.size(); ++i)
            position_[result.nodes[i]] = static_cast<std::uint32_t>(i);
        connect(result);
        return result;
    }

    /// Returns the score of each node of a neighborhood of `hops`.
    [[nodiscard]] static std::vector<float> scores_of(
        const subgraph& of, neighborhood_policy policy, std::uint32_t hops, const gneiss::random_key& key) {
        if (policy == neighborhood_policy::influence) {
            // Walks move only from nodes within hops − 1 edges, and all edges of these nodes are in the subgraph.
            std::vector<gneiss::node_id> from(of.batch);
            for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<gneiss::node_id>(i);
            gneiss::symmetric_stream stream(of.among);
            return gneiss::influence(stream, from, {.steps = hops});
        }
        std::vector<float> scores(of.nodes.size());
        for (std::size_t i = 0; i < scores.size(); ++i) {
            scores[i] = static_cast<float>(key[of.nodes[i]] >> 40) * 0x1p-24F;
            if (policy == neighborhood_policy::neighbor && i < of.direct) ++scores[i];
        }
        return scores;
    }

private:
    static constexpr std::uint32_t nowhere = ~std::uint32_t{0};

    /// Adds the edges among the nodes, whose positions are set, and resets the positions.
    void connect(subgraph& result) {
        for (const gneiss::node_id v : result.nodes) {
            for (const gneiss::node_id u : graph_.list(v))
                if (position_[u] != nowhere) result.among.neighbors.push_back(position_[u]);
            result.among.offsets.push_back(result.among.neighbors.size());
        }
        for (const gneiss::node_id v : result.nodes) position_[v] = nowhere;
    }

    const gneiss::symmetric_csr& graph_;
    std::vector<std::uint32_t> position_; // positions of the current nodes
};

} // namespace study
