#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>

#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>

namespace gneiss {

/// Edges that come in chunks, whatever they lie on, as often as asked.
///
/// Meaning: `next()` returns the following edges, valid until the next call on the stream, and an empty span once all
/// were given; `rewind()` starts again from the first, and every pass gives the same edges in the same order, though
/// perhaps in other chunks. Ids are below `nodes()`; `edges()` of them come in a pass.
/// Cost: one sequential read a pass; memory for one chunk. One thread uses a stream at a time.
template <class S>
concept edge_stream = requires(S& stream, const S& constant) {
    typename S::edge_type;
    { stream.next() } -> std::same_as<std::span<const typename S::edge_type>>;
    stream.rewind();
    { constant.nodes() } -> std::convertible_to<std::uint64_t>;
    { constant.edges() } -> std::convertible_to<edge_index>;
};

/// Takes edges, chunk by chunk, and gives them back as a stream.
///
/// Meaning: `append` copies; `finish` ends the writing and moves what was written into an `edge_stream`.
template <class W>
concept edge_writer = requires(W& writer, std::span<const typename W::edge_type> edges) {
    writer.append(edges);
    { std::move(writer).finish() } -> edge_stream;
};

/// A place for temporary edges that may exceed memory, as an algorithm that splits its input needs it.
///
/// Meaning: `create(nodes)` begins an empty set of edges between nodes below `nodes`. A set lives as long as its
/// writer or stream and then gives its space back; many may live at once.
template <class S>
concept scratch = requires(S& place, std::uint64_t nodes) {
    { place.create(nodes) } -> edge_writer;
};

/// A synthetic graph whose edges are pure functions of their number, so that any thread, machine or chunk may make
/// any of them.
///
/// Meaning: `g(i)` is edge i, `g.fill(first, out)` writes the edges from `first` on; both for numbers below `edges()`.
/// Cost: O(log nodes) an edge, no memory that grows with the graph. Thread-safe.
template <class G>
concept edge_generator = requires(const G& g, edge_index i, std::span<typename G::edge_type> out) {
    { g(i) } -> std::same_as<typename G::edge_type>;
    g.fill(i, out);
    { g.nodes() } -> std::convertible_to<std::uint64_t>;
    { g.edges() } -> std::convertible_to<edge_index>;
};

} // namespace gneiss
