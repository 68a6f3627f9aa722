// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/graph/detail/list_pair.hpp>

namespace gneiss {

/// Optional edge columns of a `csr`.
struct csr_options {
    bool relations = false; ///< 4 bytes per edge
    bool edge_ids = false;  ///< 8 bytes per edge
};

/// Neighbors of all nodes in one direction, in compressed sparse rows. Order: (neighbor, relation, edge id).
///
/// Memory: 8 bytes per node; per edge the width of an id plus the columns of `csr_options`. Immutable, thread-safe.
template <node_id_type NodeId = node_id>
class csr {
public:
    using id_type = NodeId;

    csr() = default;

    /// Constructs from arrays. Throws `invalid_argument` unless offsets ascend from 0 to the number of neighbors,
    /// neighbors are below the number of nodes, and the other arrays are empty or have one element per neighbor. Sorts
    /// lists that are out of order. O(nodes + edges), plus sorting.
    csr(std::vector<edge_index> offsets, std::vector<NodeId> neighbors, std::vector<relation_id> relations = {},
        std::vector<edge_index> edge_ids = {})
        : offsets_(std::move(offsets)),
          neighbors_(std::move(neighbors)),
          relations_(std::move(relations)),
          edge_ids_(std::move(edge_ids)) {
        const auto check = [](bool good, const char* what) {
            if (!good) throw error(errc::invalid_argument, what);
        };
        check(!offsets_.empty() && offsets_.front() == 0 && offsets_.back() == neighbors_.size() &&
                std::is_sorted(offsets_.begin(), offsets_.end()),
            "offsets of a CSR do not ascend from 0 to the number of its neighbors");
        check(std::ranges::all_of(neighbors_, [&](NodeId v) { return v < nodes(); }),
            "a CSR has neighbors beyond its nodes");
        check((relations_.empty() || relations_.size() == neighbors_.size()) &&
                (edge_ids_.empty() || edge_ids_.size() == neighbors_.size()),
            "a CSR needs a relation and an edge id for each neighbor, or none");
        sort();
    }

    /// Builds from edges between nodes below `nodes`. `for_each(sink)` calls sink(span of edges) over all edges, in the
    /// same order each time; it is called twice. Edge ids count the edges from 0 in that order. `d`: in or out. Throws
    /// errc::out_of_range for an edge beyond the nodes, errc::invalid_argument for both directions, and for a second
    /// pass with other edges. O(nodes + edges), plus a sort of lists that are out of order; the edge order of a bucket
    /// store needs none.
    template <class ForEach>
    [[nodiscard]] static csr from_edges(
        std::uint64_t nodes, neighbor_direction d, const csr_options& columns, ForEach&& for_each) {
        if (d == neighbor_direction::both)
            throw error(errc::invalid_argument, "a CSR has the lists of one direction: in or out");
        const bool in = d == neighbor_direction::in;
        csr result;
        // list v is at v + 1 until all are filled
        result.offsets_ = huge_page_vector<edge_index>(static_cast<std::size_t>(nodes) + 2);
        for_each([&](std::span<const basic_edge<NodeId>> edges) {
            for (const auto& e : edges) {
                check_edge(e, nodes);
                ++result.offsets_[static_cast<std::size_t>(in ? e.destination : e.source) + 2];
            }
        });
        for (std::size_t v = 2; v < result.offsets_.size(); ++v) result.offsets_[v] += result.offsets_[v - 1];
        const auto total = static_cast<std::size_t>(result.offsets_.back());
        result.neighbors_ = huge_page_vector<NodeId>(total);
        if (columns.relations) result.relations_ = huge_page_vector<relation_id>(total);
        if (columns.edge_ids) result.edge_ids_ = huge_page_vector<edge_index>(total);
        edge_index id = 0;
        for_each([&](std::span<const basic_edge<NodeId>> edges) {
            for (const auto& e : edges) {
                check_edge(e, nodes);
                const auto at = static_cast<std::size_t>(
                    result.offsets_[static_cast<std::size_t>(in ? e.destination : e.source) + 1]++);
                if (at >= total)
                    throw error(errc::invalid_argument, "the second pass over the edges has others than the first");
                result.neighbors_[at] = in ? e.source : e.destination;
                if (columns.relations) result.relations_[at] = e.relation;
                if (columns.edge_ids) result.edge_ids_[at] = id;
                ++id;
            }
        });
        result.offsets_.pop_back();
        result.sort();
        return result;
    }

    /// Memory that `from_edges` allocates [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(
        std::uint64_t nodes, edge_index edges, const csr_options& columns) noexcept {
        return (nodes + 2) * sizeof(edge_index) +
            edges *
            (sizeof(NodeId) + (columns.relations ? sizeof(relation_id) : 0U) +
                (columns.edge_ids ? sizeof(edge_index) : 0U));
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return offsets_.empty() ? 0 : offsets_.size() - 1; }
    [[nodiscard]] edge_index edges() const noexcept { return neighbors_.size(); }
    // Precondition of these, not checked: v < nodes().
    [[nodiscard]] edge_index begin(NodeId v) const noexcept { return offsets_[static_cast<std::size_t>(v)]; }
    [[nodiscard]] std::uint32_t degree(NodeId v) const noexcept {
        return static_cast<std::uint32_t>(begin(v + 1) - begin(v));
    }
    void prefetch_offsets(NodeId v) const noexcept { prefetch(offsets_.data() + v); }
    /// Returns true if an edge is a self loop.
    [[nodiscard]] bool has_self_loops() const noexcept { return has_self_loops_; }
    /// Returns the self loops of node v in its list. O(log degree); O(1) in a graph without.
    [[nodiscard]] detail::self_loop_run self_loops(NodeId v) const noexcept {
        return has_self_loops_ ? detail::self_loops_in(list(v), v) : detail::self_loop_run{};
    }
    /// Returns the list of node v. Throws errc::out_of_range for a node beyond the graph.
    [[nodiscard]] std::span<const NodeId> neighbors(NodeId v) const {
        if (v >= nodes())
            throw error(errc::out_of_range,
                "node " + std::to_string(v) + " of a graph of " + std::to_string(nodes()) + " nodes");
        return list(v);
    }

    // Whole arrays; the last two are empty if not stored.
    [[nodiscard]] std::span<const edge_index> offsets() const noexcept { return offsets_; }
    [[nodiscard]] std::span<const NodeId> neighbors() const noexcept { return neighbors_; }
    [[nodiscard]] std::span<const relation_id> relations() const noexcept { return relations_; }
    [[nodiscard]] std::span<const edge_index> edge_ids() const noexcept { return edge_ids_; }

private:
    [[nodiscard]] std::span<const NodeId> list(NodeId v) const noexcept {
        return std::span(neighbors_).subspan(static_cast<std::size_t>(begin(v)), degree(v));
    }
    static void check_edge(const basic_edge<NodeId>& e, std::uint64_t nodes) {
        if (e.source >= nodes || e.destination >= nodes)
            throw error(errc::out_of_range,
                "edge " + std::to_string(e.source) + " -> " + std::to_string(e.destination) + " of a graph of " +
                    std::to_string(nodes) + " nodes");
    }
    void sort() {
        std::vector<std::tuple<NodeId, relation_id, edge_index>> list;
        const auto key = [&](std::size_t e) {
            return std::tuple(neighbors_[e], relations_.empty() ? relation_id{0} : relations_[e],
                edge_ids_.empty() ? edge_index{0} : edge_ids_[e]);
        };
        for (std::size_t v = 0; v < nodes(); ++v) {
            const auto first = static_cast<std::size_t>(offsets_[v]), last = static_cast<std::size_t>(offsets_[v + 1]);
            if (last - first > std::numeric_limits<std::uint32_t>::max() / 2)
                throw error(errc::out_of_range,
                    "node " + std::to_string(v) + " has " + std::to_string(last - first) +
                        " edges: positions have 31 bits");
            const auto self = static_cast<NodeId>(v);
            for (std::size_t e = first; e < last && !has_self_loops_; ++e) has_self_loops_ = neighbors_[e] == self;
            std::size_t e = first + 1;
            while (e < last && (neighbors_[e - 1] < neighbors_[e] || key(e - 1) <= key(e))) ++e;
            if (e >= last) continue;
            list.clear();
            for (e = first; e < last; ++e) list.push_back(key(e));
            std::sort(list.begin(), list.end());
            for (e = first; e < last; ++e) {
                neighbors_[e] = std::get<0>(list[e - first]);
                if (!relations_.empty()) relations_[e] = std::get<1>(list[e - first]);
                if (!edge_ids_.empty()) edge_ids_[e] = std::get<2>(list[e - first]);
            }
        }
    }

    std::vector<edge_index> offsets_;
    std::vector<NodeId> neighbors_;
    std::vector<relation_id> relations_;
    std::vector<edge_index> edge_ids_;
    bool has_self_loops_ = false;
};

/// Graph in memory for samplers: incoming neighbors, outgoing ones, or both. Ids are dataset ids.
///
///     const csr_graph<> graph = make_csr_graph(edges, neighbor_direction::both);
///
/// Immutable, thread-safe.
template <node_id_type NodeId = node_id>
class csr_graph {
public:
    using id_type = NodeId;
    static constexpr std::size_t neighbor_batch = 256;

    /// Pass an empty csr for a direction that is not stored. Throws `invalid_argument` if both are empty or if they
    /// disagree.
    csr_graph(csr<NodeId> in, csr<NodeId> out) : in_(std::move(in)), out_(std::move(out)) {
        if (in_.offsets().empty() && out_.offsets().empty())
            throw error(errc::invalid_argument, "a graph needs its incoming or its outgoing neighbors");
        if (!in_.offsets().empty() && !out_.offsets().empty() &&
            (in_.nodes() != out_.nodes() || in_.edges() != out_.edges()))
            throw error(errc::invalid_argument, "incoming and outgoing neighbors are of different graphs");
    }

    [[nodiscard]] std::uint64_t nodes() const noexcept { return std::max(in_.nodes(), out_.nodes()); }
    [[nodiscard]] edge_index edges() const noexcept { return std::max(in_.edges(), out_.edges()); }
    /// Returns the incoming lists; empty if not stored.
    [[nodiscard]] const csr<NodeId>& in() const noexcept { return in_; }
    /// Returns the outgoing lists; empty if not stored.
    [[nodiscard]] const csr<NodeId>& out() const noexcept { return out_; }

    [[nodiscard]] std::uint64_t id_of(NodeId v) const noexcept { return v; }

    void degrees(std::span<const NodeId> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        lists(d).degrees(ids, to);
    }

    void neighbors_at(const neighbor_request<NodeId>& request, const neighbor_answer<NodeId>& answer) const {
        lists(request.direction).answer(request, answer);
    }

private:
    [[nodiscard]] detail::list_pair<csr<NodeId>> lists(neighbor_direction d) const {
        return detail::list_pair<csr<NodeId>>::of(
            in_.offsets().empty() ? nullptr : &in_, out_.offsets().empty() ? nullptr : &out_, d);
    }

    csr<NodeId> in_, out_;
};

static_assert(neighbor_source<csr_graph<>>);

/// Builds the graph of a stream of edges, in the directions requested. Reads the stream twice per direction.
template <edge_stream Stream>
[[nodiscard]] auto make_csr_graph(Stream& edges, neighbor_direction d, const csr_options& columns = {}) {
    using id = decltype(Stream::edge_type::source);
    const auto one = [&](neighbor_direction side) {
        if (d != side && d != neighbor_direction::both) return csr<id>();
        return csr<id>::from_edges(edges.nodes(), side, columns, [&](auto&& sink) {
            edges.rewind();
            for (auto chunk = edges.next(); !chunk.empty(); chunk = edges.next()) sink(chunk);
        });
    };
    return csr_graph<id>(one(neighbor_direction::in), one(neighbor_direction::out));
}
/// Says what is missing: any other type.
template <class Stream>
void make_csr_graph(Stream& /*edges*/, neighbor_direction /*d*/, const csr_options& /*columns*/ = {}) {
    static_assert(
        edge_stream<Stream>, "make_csr_graph: Stream must be a gneiss::edge_stream, see gneiss/graph/concepts.hpp");
}

} // namespace gneiss
