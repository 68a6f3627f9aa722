// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>

namespace gneiss {

/// Streams edges in chunks from any storage, in repeatable passes.
///
/// Meaning: `next()` returns the following edges, valid until the next call on the stream, and an empty span at the
/// end. `rewind()` restarts at the first edge. Every pass returns the same edges in the same order, possibly in other
/// chunks. Ids are below `nodes()`; a pass returns `edges()` edges.
/// Cost: one sequential read per pass; memory for one chunk. One thread uses a stream at a time.
template <class S>
concept edge_stream = requires(S& stream, const S& constant) {
    typename S::edge_type;
    { stream.next() } -> std::same_as<std::span<const typename S::edge_type>>;
    stream.rewind();
    { constant.nodes() } -> std::convertible_to<std::uint64_t>;
    { constant.edges() } -> std::convertible_to<edge_index>;
};

/// Takes edges chunk by chunk and returns them as a stream.
///
/// Meaning: `append` copies; `finish` ends writing and returns an `edge_stream` over the edges written.
/// Cost: `append` O(edges), sequential writes if on disk; `finish` a last block. Memory for a block if on disk, else
/// for all edges. One thread uses a writer at a time. Errors: io_error of a store on disk.
template <class W>
concept edge_writer = requires(W& writer, std::span<const typename W::edge_type> edges) {
    writer.append(edges);
    { std::move(writer).finish() } -> edge_stream;
};

/// Storage for temporary edges that may exceed memory, for algorithms that split their input.
///
/// Meaning: `create(nodes)` starts an empty set of edges between nodes below `nodes`. A set lives as long as its writer
/// or stream and then frees its space; many may exist at once.
/// Cost: `create` O(1), and a file if on disk; space for the edges of all sets that exist. Thread-safety: sets may be
/// used by different threads, each by one at a time.
/// Errors: `create` throws io_error if a store on disk cannot make one.
template <class S>
concept scratch = requires(S& place, std::uint64_t nodes) {
    { place.create(nodes) } -> edge_writer;
};

/// Synthetic graph whose edges are pure functions of their number, so any thread, machine or chunk can generate any of
/// them.
///
/// Meaning: `g(i)` is edge i; `g.fill(first, out)` writes the edges from `first` on; both for numbers below `edges()`.
/// Cost: O(log nodes) per edge, memory independent of the number of edges. Thread-safe.
template <class G>
concept edge_generator = requires(const G& g, edge_index i, std::span<typename G::edge_type> out) {
    { g(i) } -> std::same_as<typename G::edge_type>;
    g.fill(i, out);
    { g.nodes() } -> std::convertible_to<std::uint64_t>;
    { g.edges() } -> std::convertible_to<edge_index>;
};

/// Edges of a node that lead to its neighbors.
enum class neighbor_direction : std::uint8_t {
    in,  ///< edges that end in the node; its neighbors are their sources
    out, ///< edges that begin in the node; its neighbors are their destinations
    both ///< one list: outgoing edges, then incoming ones; self loops are among the outgoing ones alone
};

/// Request for neighbors at `positions[offsets[i] − offsets[0] …)` of the list of `ids[i]`. Positions count from 0, in
/// any order, and may repeat.
template <node_id_type NodeId = node_id>
struct neighbor_request {
    std::span<const NodeId> ids;                           ///< [n]
    neighbor_direction direction = neighbor_direction::in; ///< list of the node
    std::span<const std::uint32_t> offsets;                ///< [n + 1], ascending
    std::span<const std::uint32_t> positions;              ///< [offsets[n] − offsets[0]], each below the node's degree
};

/// Output of a request, one element per position. Leave `relations` and `edge_ids` empty if not wanted.
template <node_id_type NodeId = node_id>
struct neighbor_answer {
    std::span<NodeId> neighbors;        ///< neighbor at each position
    std::span<relation_id> relations{}; ///< relation of its edge
    std::span<edge_index> edge_ids{};   ///< id of its edge
};

/// Graph as seen by samplers: degrees, and neighbors at drawn positions, many nodes at a time.
///
/// Meaning: each node has one list of neighbors per direction in a fixed order, ascending by (neighbor, relation, edge
/// id), the same in every store of the same edges; repeated edges appear once each. `id_of(v)` is the id used in random
/// keys, so a sample does not depend on a store's numbering. `degrees` writes the length of each list; `neighbors_at`
/// answers a request.
/// Throws `invalid_argument` for a direction, relations or edge ids that the graph does not store. Nothing is checked
/// for each node: ids and neighbors are below `nodes()`, positions below degrees, outputs as long as requests. A call
/// that breaks this reads out of bounds; samplers of a graph that returns other neighbors may not end. Samplers check
/// their seeds.
/// Cost: O(ids) and O(positions) without allocation; a source in memory prefetches. A source on disk issues one wave of
/// reads per call. `neighbor_batch` is the preferred request size: a few hundred ids, so that data between the two
/// calls stays in a near cache, or unlimited.
/// Thread-safe.
template <class G>
concept neighbor_source = requires(const G& g, std::span<const typename G::id_type> ids, typename G::id_type v,
    neighbor_direction d, std::span<std::uint32_t> degrees, const neighbor_request<typename G::id_type>& request,
    const neighbor_answer<typename G::id_type>& answer) {
    requires node_id_type<typename G::id_type>;
    { g.nodes() } -> std::convertible_to<std::uint64_t>;
    { g.id_of(v) } -> std::convertible_to<std::uint64_t>;
    g.degrees(ids, d, degrees);
    g.neighbors_at(request, answer);
    { G::neighbor_batch } -> std::convertible_to<std::size_t>;
};

} // namespace gneiss
