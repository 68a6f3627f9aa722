// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/edge_list.hpp>

namespace gneiss {

/// Writer and stream types of a scratch.
template <scratch Scratch>
using scratch_writer = decltype(std::declval<Scratch&>().create(std::uint64_t{}));
/// Stream that a scratch's writer returns.
template <scratch Scratch>
using scratch_stream = decltype(std::declval<scratch_writer<Scratch>>().finish());

/// Edges in random order, as an `edge_stream`. Pieces are stored in a scratch; one piece at a time is in memory.
template <edge_stream Piece>
class shuffled_edges {
public:
    using edge_type = typename Piece::edge_type;

    /// Takes pieces over; each is shuffled by `key` when it is read.
    shuffled_edges(std::uint64_t nodes, std::vector<Piece> pieces, random_key key)
        : nodes_(nodes),
          pieces_(std::move(pieces)),
          key_(key) {
        for (const Piece& piece : pieces_) edges_ += piece.edges();
    }

    [[nodiscard]] std::span<const edge_type> next() {
        piece_.clear();
        while (piece_.empty() && at_ < pieces_.size()) {
            Piece& from = pieces_[at_];
            piece_.reserve(static_cast<std::size_t>(from.edges()));
            from.rewind();
            for (auto chunk = from.next(); !chunk.empty(); chunk = from.next())
                piece_.insert(piece_.end(), chunk.begin(), chunk.end());
            shuffle(piece_, key_.with(at_++));
        }
        return piece_;
    }
    void rewind() noexcept { at_ = 0; }
    [[nodiscard]] std::uint64_t nodes() const noexcept { return nodes_; }
    [[nodiscard]] edge_index edges() const noexcept { return edges_; }

private:
    std::uint64_t nodes_;
    std::vector<Piece> pieces_;
    random_key key_;
    edge_index edges_ = 0;
    std::size_t at_ = 0;
    std::vector<edge_type> piece_;
};

/// Piece sizes of an external shuffle.
struct edge_shuffle_options {
    std::size_t piece = std::size_t{1} << 20; ///< approximate edges per piece; more if there would be too many pieces
    std::size_t most_pieces = 256;            ///< maximum number of sets written at once
};

/// Average edges per piece, for memory planning.
[[nodiscard]] constexpr edge_index piece_of(edge_index edges, const edge_shuffle_options& options) noexcept {
    const auto wanted = ceil_div(edges, static_cast<edge_index>(options.piece));
    return ceil_div(edges, std::max<edge_index>(1, std::min<edge_index>(wanted, options.most_pieces)));
}

/// Shuffles the edges of a stream uniformly: each edge goes to a random piece, and pieces are shuffled as they are
/// read. The result is a function of the stream's order and `key`.
///
/// \param report  called with the number of edges read so far, before each chunk; may throw to stop
///
/// Cost: edges are read and written once, some 20 ns each, then read and shuffled once per pass. Memory: 12 KiB per
/// piece while writing, plus the writers' buffers; one piece (`piece_of`) while reading.
/// Errors: those of the stream and the scratch.
/// Source: Rao, Sankhya 1961; Sandelius, J. R. Stat. Soc. B 1962: random pieces in random order form a random order.
template <edge_stream Stream, scratch Scratch, std::invocable<edge_index> Report>
    requires std::same_as<typename Stream::edge_type, typename scratch_writer<Scratch>::edge_type>
[[nodiscard]] shuffled_edges<scratch_stream<Scratch>> shuffle_edges(
    Stream& edges, Scratch& place, random_key key, const edge_shuffle_options& options, Report&& report) {
    using edge_type = typename Stream::edge_type;
    constexpr std::size_t together = 1024;
    const edge_index size = std::max<edge_index>(1, piece_of(edges.edges(), options));
    const std::uint64_t pieces = std::max<std::uint64_t>(1, ceil_div(edges.edges(), size));
    std::vector<scratch_writer<Scratch>> writers;
    std::vector<std::vector<edge_type>> waiting(static_cast<std::size_t>(pieces));
    for (auto& list : waiting) {
        writers.push_back(place.create(edges.nodes()));
        list.reserve(together);
    }
    const random_key choice = key.with(0);
    edge_index done = 0;
    edges.rewind();
    for (auto chunk = edges.next(); !chunk.empty(); chunk = edges.next()) {
        report(done);
        for (const edge_type& e : chunk) {
            const auto to = static_cast<std::size_t>(below(choice[done++], pieces));
            waiting[to].push_back(e);
            if (waiting[to].size() < together) continue;
            writers[to].append(waiting[to]);
            waiting[to].clear();
        }
    }
    std::vector<scratch_stream<Scratch>> streams;
    for (std::size_t i = 0; i < writers.size(); ++i) {
        writers[i].append(waiting[i]);
        waiting[i] = {};
        streams.push_back(std::move(writers[i]).finish());
    }
    return {edges.nodes(), std::move(streams), key.with(1)};
}

static_assert(edge_stream<shuffled_edges<edge_list<>>>);

} // namespace gneiss
