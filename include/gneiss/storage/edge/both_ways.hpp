// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>

namespace gneiss {

namespace detail {

/// Words of a block file in order, read in pieces.
class block_words {
public:
    /// Reads `count` words from `offset` on, at most `piece` at once.
    block_words(
        const bucket_store& store, edge_direction d, std::uint64_t offset, std::uint64_t count, std::size_t piece)
        : store_(&store),
          direction_(d),
          offset_(offset),
          left_(count),
          buffer_(static_cast<std::size_t>(std::min<std::uint64_t>(count, piece))) {}

    /// Returns the next words; empty at the end.
    [[nodiscard]] std::span<const std::uint32_t> next_piece() {
        const auto some =
            std::span(buffer_).first(static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), left_)));
        store_->read_bytes(direction_, offset_, std::as_writable_bytes(some));
        offset_ += some.size_bytes();
        left_ -= some.size();
        return some;
    }
    /// Returns the next word. Throws errc::corrupt at the end.
    [[nodiscard]] std::uint32_t next() {
        if (at_ == piece_.size()) {
            piece_ = next_piece();
            if (piece_.empty())
                throw error(errc::corrupt, "an edge bucket has fewer nodes than its edges need",
                    {.path = store_->path(direction_)});
            at_ = 0;
        }
        return piece_[at_++];
    }

private:
    const bucket_store* store_;
    edge_direction direction_;
    std::uint64_t offset_, left_;
    std::vector<std::uint32_t> buffer_;
    std::span<const std::uint32_t> piece_{};
    std::size_t at_ = 0;
};

/// The distinct pairs (node, neighbor) of a block, ascending.
class block_pairs {
public:
    /// Reads with three pieces in memory.
    block_pairs(const bucket_store& store, edge_direction d, std::uint64_t offset, std::uint64_t nodes,
        std::uint64_t edges, std::size_t piece)
        : nodes_(store, d, offset, nodes, piece),
          starts_(store, d, offset + 4 * nodes, nodes + 1, piece),
          neighbors_(store, d, offset + 4 * (2 * nodes + 1), edges, piece),
          edges_(edges),
          end_(nodes == 0 ? 0 : starts_.next()) {}

    /// Returns the next pair; none at the end. Throws errc::corrupt for starts out of order.
    [[nodiscard]] std::optional<std::pair<std::uint32_t, std::uint32_t>> next() {
        while (at_ < edges_) {
            const bool fresh = at_ == end_;
            if (fresh) {
                node_ = nodes_.next();
                end_ = starts_.next();
                if (end_ <= at_ || end_ > edges_)
                    throw error(errc::corrupt, "starts of an edge bucket are out of order");
            }
            const std::uint32_t neighbor = neighbors_.next();
            ++at_;
            if (!fresh && neighbor == neighbor_) continue;
            neighbor_ = neighbor;
            return std::pair(node_, neighbor);
        }
        return std::nullopt;
    }

private:
    block_words nodes_, starts_, neighbors_;
    std::uint64_t edges_, at_ = 0;
    std::uint32_t end_, node_ = 0, neighbor_ = 0;
};

} // namespace detail

/// Returns true if every edge is stored both ways: for each edge from u to v there is one from v to u, of any relation
/// and any number of times. Self loops are their own reverse.
///
/// The outgoing block of bucket (i, j) lists the same pairs of nodes as the incoming block of (j, i) exactly then, so
/// blocks are compared in pieces. Cost: O(p²) and, unless the counts of nodes differ, one read of half of both block
/// files, up to the first difference. Memory: at most `memory`, but at least 64 KiB, besides a checksum block.
/// \param poll  called before each pair of buckets is read; may throw to end the work
/// Errors: `io_error`; errc::corrupt.
template <class Poll>
[[nodiscard]] bool stored_both_ways(const bucket_store& store, std::uint64_t memory, Poll&& poll) {
    const std::size_t piece =
        static_cast<std::size_t>(std::clamp<std::uint64_t>(memory, 1 << 16, 6 * checksum_block_bytes)) / 6 / 4;
    const bucket_layout& layout = store.layout();
    const std::uint32_t partitions = layout.rows.partitions;
    const auto row = [&](partition_id i, partition_id j) -> const bucket_row& {
        return store.table()[static_cast<std::size_t>(layout.index({i, j}))];
    };
    for (partition_id i = 0; i < partitions; ++i)
        for (partition_id j = 0; j < partitions; ++j)
            if (row(i, j).out_nodes != row(j, i).in_nodes) return false;
    for (partition_id i = 0; i < partitions; ++i)
        for (partition_id j = i; j < partitions; ++j) {
            const bucket_row &there = row(i, j), &back = row(j, i);
            const std::uint64_t nodes = there.out_nodes;
            if (nodes == 0) continue;
            poll();
            bool equal = there.edges == back.edges; // also without repeated edges
            if (equal) {
                const std::uint64_t words = 2 * nodes + 1 + there.edges;
                detail::block_words a(store, edge_direction::out, there.out_offset, words, 3 * piece),
                    b(store, edge_direction::in, back.in_offset, words, 3 * piece);
                for (auto some = a.next_piece(); equal && !some.empty(); some = a.next_piece())
                    equal = std::ranges::equal(some, b.next_piece());
            }
            if (equal) continue;
            detail::block_pairs a(store, edge_direction::out, there.out_offset, nodes, there.edges, piece),
                b(store, edge_direction::in, back.in_offset, nodes, back.edges, piece);
            for (;;) {
                const auto pair = a.next();
                if (pair != b.next()) return false;
                if (!pair) break;
            }
        }
    return true;
}

/// The same, without polls.
[[nodiscard]] inline bool stored_both_ways(const bucket_store& store, std::uint64_t memory) {
    return stored_both_ways(store, memory, [] {});
}

} // namespace gneiss
