// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Neighbors of consecutive nodes: list i, of node first + i, is neighbors[offsets[i] … offsets[i + 1]).
///
/// Views, valid until the next call on the stream that returned them. An empty chunk ends a pass.
struct adjacency_chunk {
    node_id first = 0;                        ///< node of list 0
    std::span<const std::uint32_t> offsets{}; ///< [size() + 1], ascending, may not start at 0; empty at the end
    std::span<const node_id> neighbors{};     ///< [offsets.back()] or more

    /// Returns the number of lists.
    [[nodiscard]] std::size_t size() const noexcept { return offsets.empty() ? 0 : offsets.size() - 1; }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
    /// Returns the node of list i.
    [[nodiscard]] node_id node(std::size_t i) const noexcept { return static_cast<node_id>(first + i); }
    /// Returns the neighbors of list i.
    [[nodiscard]] std::span<const node_id> list(std::size_t i) const noexcept {
        return neighbors.subspan(offsets[i], offsets[i + 1] - offsets[i]);
    }
};

/// Streams an undirected graph node by node from any storage, in repeatable passes.
///
/// Meaning: `next()` returns the lists of the following nodes, ascending and without gaps, isolated nodes included, and
/// an empty chunk at the end. `rewind()` restarts at node 0. Every pass returns the same lists, possibly in other
/// chunks: results must not depend on chunk borders. An edge u–v is in the lists of u and of v, once per occurrence;
/// self loops are absent, or skipped by the reader. Ids are below `nodes()`; a pass returns `arcs()` neighbors, twice
/// the number of edges. Readers do not check this for each neighbor: a stream that breaks it is read out of bounds.
/// `symmetric_stream` and `adjacency_file_stream` check what they read.
/// Cost: one sequential read per pass; memory for one or two chunks. One thread uses a stream at a time.
template <class S>
concept adjacency_stream = requires(S& stream, const S& constant) {
    { stream.next() } -> std::same_as<adjacency_chunk>;
    stream.rewind();
    { constant.nodes() } -> std::convertible_to<std::uint64_t>;
    { constant.arcs() } -> std::convertible_to<edge_index>;
};

/// Type-erased adjacency stream, chosen at run time: one indirect call per chunk. Models `adjacency_stream`; movable.
class any_adjacency {
public:
    /// Takes the stream over.
    template <class Stream>
        requires(!std::same_as<Stream, any_adjacency> && adjacency_stream<Stream>)
    any_adjacency(Stream stream) // NOLINT(google-explicit-constructor): stands for the stream
        : stream_(std::make_unique<held<Stream>>(std::move(stream))) {}
    /// Says what is missing: any other object.
    template <class Stream>
        requires(!std::same_as<Stream, any_adjacency> && !adjacency_stream<Stream>)
    any_adjacency(Stream /*stream*/) { // NOLINT(google-explicit-constructor): as above
        static_assert(adjacency_stream<Stream>,
            "any_adjacency: the object must be a gneiss::adjacency_stream, see gneiss/graph/adjacency_stream.hpp");
    }

    [[nodiscard]] adjacency_chunk next() { return stream_->next(); }
    void rewind() { stream_->rewind(); }
    [[nodiscard]] std::uint64_t nodes() const { return stream_->nodes(); }
    [[nodiscard]] edge_index arcs() const { return stream_->arcs(); }

private:
    struct any {
        virtual ~any() = default;
        [[nodiscard]] virtual adjacency_chunk next() = 0;
        virtual void rewind() = 0;
        [[nodiscard]] virtual std::uint64_t nodes() const = 0;
        [[nodiscard]] virtual edge_index arcs() const = 0;
    };
    template <class Stream>
    struct held final : any {
        explicit held(Stream s) : stream(std::move(s)) {}
        [[nodiscard]] adjacency_chunk next() override { return stream.next(); }
        void rewind() override { stream.rewind(); }
        [[nodiscard]] std::uint64_t nodes() const override { return stream.nodes(); }
        [[nodiscard]] edge_index arcs() const override { return stream.arcs(); }

        Stream stream;
    };

    std::unique_ptr<any> stream_;
};

static_assert(adjacency_stream<any_adjacency>);

} // namespace gneiss
