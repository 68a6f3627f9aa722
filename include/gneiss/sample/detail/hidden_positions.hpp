#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/coo.hpp>

namespace gneiss {

/// An edge that samplers shall not walk, as a batch of link prediction hides its positives from message passing.
template <node_id_type NodeId = node_id>
struct hidden_edge {
    NodeId source{};
    NodeId destination{};
    edge_index id = 0;
};

} // namespace gneiss

namespace gneiss::detail {

/// Where hidden edges stand in the lists of their ends.
template <node_id_type NodeId>
class hidden_positions {
public:
    /// Finds the edges in the lists of `direction`; an edge that the graph does not have is nowhere. The graph must tell
    /// edge ids. O(edges · log degree), in as many requests as the longest list has bits, for all edges at once.
    template <neighbour_source G>
    void find(const G& graph, std::span<const hidden_edge<NodeId>> edges, neighbour_direction direction) {
        at_.clear();
        if (edges.empty()) return;
        if (direction != neighbour_direction::in) find_in_lists(graph, edges, neighbour_direction::out, {});
        if (direction == neighbour_direction::out) return sort();
        std::vector<std::uint32_t> outgoing;
        if (direction == neighbour_direction::both) { // incoming positions follow the outgoing ones
            collect(edges, neighbour_direction::in);
            outgoing.resize(edges.size());
            graph.degrees(owners_, neighbour_direction::out, outgoing);
        }
        find_in_lists(graph, edges, neighbour_direction::in, outgoing);
        sort();
    }

    [[nodiscard]] bool empty() const noexcept { return at_.empty(); }

    /// The hidden positions of a node, ascending: a range of (node, position). O(log edges).
    [[nodiscard]] std::span<const std::pair<NodeId, std::uint32_t>> of(NodeId node) const noexcept {
        const auto [first, last] =
            std::equal_range(at_.begin(), at_.end(), std::pair(node, std::uint32_t{0}),
                [](const auto& a, const auto& b) { return a.first < b.first; });
        return {first, last};
    }

private:
    void collect(std::span<const hidden_edge<NodeId>> edges, neighbour_direction direction) {
        owners_.resize(edges.size());
        for (std::size_t i = 0; i < edges.size(); ++i)
            owners_[i] = direction == neighbour_direction::in ? edges[i].destination : edges[i].source;
    }

    /// A binary search of all edges together for the first position of the neighbour, then steps through the repeated
    /// edges from there.
    template <neighbour_source G>
    void find_in_lists(const G& graph, std::span<const hidden_edge<NodeId>> edges, neighbour_direction direction,
        std::span<const std::uint32_t> shift) {
        const auto other = [&](std::size_t i) {
            return direction == neighbour_direction::in ? edges[i].source : edges[i].destination;
        };
        collect(edges, direction);
        std::vector<std::uint32_t> low(edges.size(), 0), degrees(edges.size()), high;
        graph.degrees(owners_, direction, degrees);
        high = degrees;
        std::vector<std::size_t> open(edges.size());
        const auto ask = [&](auto&& position_of) {
            ids_.clear();
            positions_.clear();
            for (const std::size_t i : open) {
                ids_.push_back(owners_[i]);
                positions_.push_back(position_of(i));
            }
            offsets_.resize(open.size() + 1);
            std::iota(offsets_.begin(), offsets_.end(), 0U);
            neighbours_.resize(open.size());
            edge_ids_.resize(open.size());
            graph.neighbours_at({ids_, direction, offsets_, positions_}, {neighbours_, {}, edge_ids_});
        };
        std::iota(open.begin(), open.end(), std::size_t{0});
        for (;;) {
            std::erase_if(open, [&](std::size_t i) { return low[i] == high[i]; });
            if (open.empty()) break;
            const auto middle = [&](std::size_t i) { return low[i] + (high[i] - low[i]) / 2; };
            ask(middle);
            for (std::size_t k = 0; k < open.size(); ++k) {
                const std::size_t i = open[k];
                const std::uint32_t at = middle(i);
                if (neighbours_[k] < other(i))
                    low[i] = at + 1;
                else
                    high[i] = at;
            }
        }
        open.resize(edges.size());
        std::iota(open.begin(), open.end(), std::size_t{0});
        for (;;) {
            std::erase_if(open, [&](std::size_t i) { return low[i] == degrees[i]; });
            if (open.empty()) break;
            ask([&](std::size_t i) { return low[i]; });
            std::size_t kept = 0;
            for (std::size_t k = 0; k < open.size(); ++k) {
                const std::size_t i = open[k];
                if (neighbours_[k] != other(i)) continue; // not an edge of the graph
                if (edge_ids_[k] == edges[i].id) {
                    at_.emplace_back(owners_[i], low[i] + (shift.empty() ? 0U : shift[i]));
                    continue;
                }
                ++low[i];
                open[kept++] = i;
            }
            open.resize(kept);
        }
    }

    void sort() {
        std::sort(at_.begin(), at_.end());
        at_.erase(std::unique(at_.begin(), at_.end()), at_.end());
    }

    std::vector<std::pair<NodeId, std::uint32_t>> at_;
    std::vector<NodeId> owners_, ids_, neighbours_;
    std::vector<std::uint32_t> positions_, offsets_;
    std::vector<edge_index> edge_ids_;
};

} // namespace gneiss::detail
