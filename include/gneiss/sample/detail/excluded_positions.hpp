// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/sample/excluded_edge.hpp>

namespace gneiss::detail {

/// Positions of excluded edges in the lists of their ends.
template <node_id_type NodeId>
class excluded_positions {
public:
    /// Finds the edges in the lists of `direction`; edges that the graph lacks are ignored. The graph must store edge
    /// ids. O(edges · (log edges + log degree + m)) if two nodes have at most m edges; makes one request for all edges
    /// per bit of the longest list's length, and m more.
    template <neighbor_source G>
    void find(const G& graph, std::span<const excluded_edge<NodeId>> edges, neighbor_direction direction) {
        at_.clear();
        if (edges.empty()) return;
        if (direction != neighbor_direction::in) find_in_lists(graph, edges, neighbor_direction::out, false);
        if (direction != neighbor_direction::out)
            find_in_lists(graph, edges, neighbor_direction::in, direction == neighbor_direction::both);
        std::sort(at_.begin(), at_.end());
        at_.erase(std::unique(at_.begin(), at_.end()), at_.end());
    }

    [[nodiscard]] bool empty() const noexcept { return at_.empty(); }

    /// Excluded positions of a node, ascending: a range of (node, position). O(log edges).
    [[nodiscard]] std::span<const std::pair<NodeId, std::uint32_t>> of(NodeId node) const noexcept {
        const auto [first, last] = std::equal_range(at_.begin(), at_.end(), std::pair(node, std::uint32_t{0}),
            [](const auto& a, const auto& b) { return a.first < b.first; });
        return {first, last};
    }

private:
    struct wanted {
        NodeId owner, other;
        edge_index id;
        std::uint32_t low = 0, high = 0, degree = 0; // the neighbor's first position is in [low, high]
    };

    /// Binary search of all edges at once for the first position of the neighbor, then a scan through repeated edges.
    /// Edges of one list are requested together, in list order: a batch searches the lists of a few hubs thousands of
    /// times, and a graph in blocks locates the pieces of a list again for each requested node.
    ///
    /// \param after_outgoing  positions follow those of the owner's outgoing edges
    template <neighbor_source G>
    void find_in_lists(const G& graph, std::span<const excluded_edge<NodeId>> edges, neighbor_direction direction,
        bool after_outgoing) {
        open_.clear();
        for (const excluded_edge<NodeId>& e : edges) {
            if (direction == neighbor_direction::in)
                open_.push_back({e.destination, e.source, e.id});
            else
                open_.push_back({e.source, e.destination, e.id});
        }
        std::sort(open_.begin(), open_.end(), [](const wanted& a, const wanted& b) {
            return a.owner != b.owner ? a.owner < b.owner : a.other < b.other;
        });
        name_owners();
        const auto degrees_of = [&](neighbor_direction of, std::vector<std::uint32_t>& to) {
            to.resize(ids_.size());
            graph.degrees(ids_, of, to);
        };
        degrees_of(direction, degrees_);
        for (std::size_t i = 0; i < ids_.size(); ++i)
            for (std::size_t k = offsets_[i]; k < offsets_[i + 1]; ++k) open_[k].high = open_[k].degree = degrees_[i];
        if (after_outgoing) {
            std::vector<std::uint32_t> in = degrees_, both;
            degrees_of(neighbor_direction::out, degrees_);
            degrees_of(neighbor_direction::both, both);
            shifts_.clear();
            for (std::size_t i = 0; i < ids_.size(); ++i)
                shifts_.push_back({ids_[i], degrees_[i], in[i] + degrees_[i] - both[i]});
            // Self loops are among the outgoing edges alone.
            std::erase_if(open_, [](const wanted& w) { return w.owner == w.other; });
        }

        searched_.clear();
        while (!open_.empty()) {
            std::size_t kept = 0;
            for (const wanted& w : open_) {
                if (w.low == w.high)
                    searched_.push_back(w);
                else
                    open_[kept++] = w;
            }
            open_.resize(kept);
            if (open_.empty()) break;
            const auto middle = [](const wanted& w) { return w.low + (w.high - w.low) / 2; };
            ask(graph, direction, middle, false);
            for (std::size_t k = 0; k < open_.size(); ++k) {
                wanted& w = open_[k];
                const std::uint32_t at = middle(w);
                if (neighbors_[k] < w.other)
                    w.low = at + 1;
                else
                    w.high = at;
            }
        }

        open_.swap(searched_); // group each list's edges again
        std::sort(open_.begin(), open_.end(),
            [](const wanted& a, const wanted& b) { return a.owner != b.owner ? a.owner < b.owner : a.low < b.low; });
        for (;;) {
            std::erase_if(open_, [](const wanted& w) { return w.low == w.degree; });
            if (open_.empty()) break;
            ask(graph, direction, [](const wanted& w) { return w.low; }, true);
            std::size_t kept = 0;
            for (std::size_t k = 0; k < open_.size(); ++k) {
                wanted w = open_[k];
                if (neighbors_[k] != w.other) continue; // not an edge of the graph
                if (edge_ids_[k] == w.id) {
                    at_.emplace_back(w.owner, w.low + (after_outgoing ? shift_of(w) : 0));
                    continue;
                }
                ++w.low;
                open_[kept++] = w;
            }
            open_.resize(kept);
        }
    }

    /// Returns the distance, modulo 2³², from the position of an incoming edge to that in the list of both directions:
    /// it follows the outgoing edges, and self loops before it are not there.
    [[nodiscard]] std::uint32_t shift_of(const wanted& w) const noexcept {
        const shift& by = *std::ranges::lower_bound(shifts_, w.owner, {}, &shift::owner);
        return by.outgoing - (w.other > w.owner ? by.loops : 0);
    }

    /// Lists the owners of open edges, each once, with offsets of their edges.
    void name_owners() {
        ids_.clear();
        offsets_.assign(1, 0);
        for (std::size_t k = 0; k < open_.size(); ++k) {
            if (ids_.empty() || ids_.back() != open_[k].owner) {
                ids_.push_back(open_[k].owner);
                offsets_.push_back(0);
            }
            offsets_.back() = static_cast<std::uint32_t>(k + 1);
        }
    }

    template <class G, class PositionOf>
    void ask(const G& graph, neighbor_direction direction, PositionOf&& position_of, bool edge_ids) {
        name_owners();
        positions_.clear();
        for (const wanted& w : open_) positions_.push_back(position_of(w));
        neighbors_.resize(open_.size());
        edge_ids_.resize(edge_ids ? open_.size() : 0);
        graph.neighbors_at({ids_, direction, offsets_, positions_}, {neighbors_, {}, edge_ids_});
    }

    std::vector<std::pair<NodeId, std::uint32_t>> at_;
    std::vector<wanted> open_, searched_;
    struct shift {
        NodeId owner;
        std::uint32_t outgoing, loops; // edges, self loops
    };
    std::vector<shift> shifts_; // by owner
    std::vector<NodeId> ids_, neighbors_;
    std::vector<std::uint32_t> degrees_, positions_, offsets_;
    std::vector<edge_index> edge_ids_;
};

} // namespace gneiss::detail
