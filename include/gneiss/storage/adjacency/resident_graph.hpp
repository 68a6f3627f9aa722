// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/detail/list_pair.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/adjacency/resident_csr.hpp>
#include <gneiss/storage/detail/check_plan.hpp>

namespace gneiss {

/// One edge bucket in memory, by source or by destination, with an index of its lists: a bitmap of the nodes that have
/// edges, ranked every 64 nodes. Memory: the block, and 2 bits per node of its own partition. Immutable.
class resident_block {
public:
    /// \param bytes       memory of `block`
    /// \param own_size    nodes of the partition that the block is indexed by
    /// \param first_edge  number of the bucket's edge 0 among all edges
    resident_block(
        aligned_buffer<std::byte> bytes, const edge_block& block, std::uint64_t own_size, edge_index first_edge)
        : bytes_(std::move(bytes)),
          block_(block),
          first_edge_(first_edge),
          ranks_(own_size, block_.nodes) {}

    /// Looks for self loops, in a block of the edges within a partition. O(edges).
    void find_self_loops() noexcept {
        for (std::size_t v = 0; v < block_.nodes.size() && !has_self_loops_; ++v)
            has_self_loops_ = std::ranges::binary_search(
                block_.neighbors.subspan(block_.starts[v], block_.starts[v + 1] - block_.starts[v]), block_.nodes[v]);
    }
    /// Returns the self loops of a node, by its local id, as positions [first, second) of the block; none unless they
    /// were looked for. O(log degree).
    [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> self_loops_of(std::uint32_t node) const noexcept {
        const auto [first, last] = edges_of(node);
        if (!has_self_loops_ || first == last) return {last, last};
        const detail::self_loop_run run = detail::self_loops_in(block_.neighbors.subspan(first, last - first), node);
        return {first + run.first, first + run.first + run.count};
    }

    /// Returns the number of self loops; 0 unless they were looked for. O(log degree) per node with edges; O(1) without
    /// self loops.
    [[nodiscard]] std::uint64_t self_loops() const noexcept {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; has_self_loops_ && i < block_.nodes.size(); ++i) {
            const auto [first, last] = self_loops_of(block_.nodes[i]);
            sum += last - first;
        }
        return sum;
    }

    /// Bytes besides the block's own.
    [[nodiscard]] static constexpr std::uint64_t memory_of_ranks(std::uint64_t own_size) noexcept {
        return ranked_bitmap::memory_of(own_size);
    }

    /// Returns the edges of a node, by its local id: positions [first, second) of the block.
    [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> edges_of(std::uint32_t node) const noexcept {
        const std::optional<std::uint32_t> at = ranks_.rank(node);
        if (!at) return {0, 0};
        return {block_.starts[*at], block_.starts[*at + std::size_t{1}]};
    }
    /// Prefetches the index of a node's list.
    void prefetch_edges_of(std::uint32_t node) const noexcept { ranks_.prefetch(node); }

    /// Returns the block.
    [[nodiscard]] const edge_block& block() const noexcept { return block_; }
    /// Returns the number of the edge at a position among all edges of the dataset.
    [[nodiscard]] edge_index edge_id(std::uint32_t position) const noexcept {
        return first_edge_ + block_.edge_id(position);
    }

private:
    aligned_buffer<std::byte> bytes_;
    edge_block block_;
    edge_index first_edge_;
    ranked_bitmap ranks_;
    bool has_self_loops_ = false;
};

/// The graph among the partitions of one state, a `neighbor_source`: the union of the blocks of their buckets, or the
/// same lists merged.
///
/// A node's list is the concatenation over its resident partners, ascending, hence in the same order as in a CSR of the
/// same edges. Ids are row ids. Edge ids count the dataset's edges bucket by bucket, row by row, each in its stored
/// order; they do not depend on residency. Nodes of other partitions have no neighbors. Blocks are shared: two graphs
/// with a common bucket hold it once, and each graph lives until its last user drops it.
/// Cost: O(c) per node for c resident partitions and at most O(c) per position; merged O(1). Own memory: 2 pointers per
/// bucket. Immutable, thread-safe.
class resident_graph {
public:
    using id_type = node_id;
    static constexpr std::size_t neighbor_batch = 256;
    using block = std::shared_ptr<const resident_block>; ///< shared block of a bucket

    /// \param resident  ascending
    /// \param keeps     available directions
    /// \param out, in   [c · c] blocks, at own · c + partner where own is the position of the partition that the block
    ///                  is indexed by; null: no edges
    /// Throws errc::invalid_argument for partitions that do not ascend or do not exist, or another number of blocks.
    resident_graph(const row_partitioning& rows, std::vector<partition_id> resident, neighbor_direction keeps,
        std::vector<block> out, std::vector<block> in)
        : rows_(rows),
          keeps_(keeps),
          finder_(rows),
          resident_(std::move(resident)),
          place_(rows.partitions, absent),
          out_(std::move(out)),
          in_(std::move(in)) {
        detail::check_resident(resident_, rows.partitions);
        const std::size_t blocks = resident_.size() * resident_.size();
        if ((keeps != neighbor_direction::in && out_.size() != blocks) ||
            (keeps != neighbor_direction::out && in_.size() != blocks))
            throw error(errc::invalid_argument,
                "a graph of " + std::to_string(resident_.size()) + " partitions has a block for each pair of them");
        for (std::size_t i = 0; i < resident_.size(); ++i) {
            place_[resident_[i]] = static_cast<std::uint32_t>(i);
            begin_.push_back(static_cast<node_id>(rows.begin(resident_[i])));
        }
    }

    /// \param out, in  lists of the same partitions, filled; null: the direction is absent
    /// Throws errc::invalid_argument without lists, or for lists of different partitions.
    resident_graph(
        const row_partitioning& rows, std::shared_ptr<const resident_csr> out, std::shared_ptr<const resident_csr> in)
        : rows_(rows),
          keeps_(!in     ? neighbor_direction::out
                  : !out ? neighbor_direction::in
                         : neighbor_direction::both),
          resident_(same_partitions(out.get(), in.get())),
          merged_out_(std::move(out)),
          merged_in_(std::move(in)) {}

    [[nodiscard]] std::uint64_t nodes() const noexcept { return rows_.nodes; }
    /// Returns the resident partitions, ascending.
    [[nodiscard]] std::span<const partition_id> resident() const noexcept { return resident_; }
    [[nodiscard]] std::uint64_t id_of(node_id v) const noexcept { return v; }
    /// Returns the number of edges among the resident partitions. O(c²), merged O(1).
    [[nodiscard]] edge_index edges() const noexcept {
        if (merged()) return (merged_in_ ? merged_in_ : merged_out_)->edges();
        edge_index sum = 0;
        for (const block& b : keeps_ == neighbor_direction::in ? in_ : out_) sum += b ? b->block().edges() : 0;
        return sum;
    }

    /// Returns the number of self loops of a resident partition's nodes, which the neighbors in both directions have
    /// once; 0 with one direction. O(log degree) per node; O(1) without self loops.
    [[nodiscard]] std::uint64_t self_loops(partition_id p) const {
        std::uint64_t sum = 0;
        if (merged_out_ && merged_in_ && merged_in_->has_self_loops()) {
            for (std::uint64_t v = rows_.begin(p); v < rows_.begin(p + 1); ++v)
                sum += merged_in_->self_loops(static_cast<node_id>(v)).count;
        } else if (!merged() && keeps_ == neighbor_direction::both) {
            const block& within = in_[place_[p] * (resident_.size() + 1)];
            if (within) sum = within->self_loops();
        }
        return sum;
    }

    void degrees(std::span<const node_id> ids, neighbor_direction d, std::span<std::uint32_t> to) const {
        if (merged()) return lists(d).degrees(ids, to);
        constexpr std::size_t ahead = 8;
        check(d);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            if (i + ahead < ids.size())
                for_each_block(ids[i + ahead], d,
                    [](const resident_block& b, std::uint32_t local, node_id, bool) { b.prefetch_edges_of(local); });
            std::uint32_t degree = 0;
            for_each_run(ids[i], d, [&](const resident_block&, std::uint32_t first, std::uint32_t last, node_id) {
                degree += last - first;
            });
            to[i] = degree;
        }
    }

    void neighbors_at(const neighbor_request<node_id>& request, const neighbor_answer<node_id>& answer) const {
        if (merged()) return lists(request.direction).answer(request, answer);
        check(request.direction);
        places waiting;
        std::size_t done = 0, k = 0;
        std::vector<run> runs;
        for (std::size_t i = 0; i < request.ids.size(); ++i) {
            const std::size_t end = request.offsets[i + 1] - request.offsets[0];
            if (k == end) continue;
            runs.clear(); // ends of the parts of the list, and their blocks
            std::uint32_t degree = 0;
            for_each_run(request.ids[i], request.direction,
                [&](const resident_block& b, std::uint32_t first, std::uint32_t last, node_id other) {
                    if (first != last) runs.push_back({degree + (last - first), first - degree, &b, other});
                    degree += last - first;
                });
            for (; k < end; ++k) {
                const std::uint32_t position = request.positions[k];
                GNEISS_ASSERT(position < degree);
                const run* in = runs.data();
                while (position >= in->end) ++in;
                const std::uint32_t at = position + in->shift;
                prefetch(in->from->block().neighbors.data() + at);
                waiting[k - done] = {in->from, at, in->other};
                if (k + 1 - done == waiting.size()) {
                    collect(std::span(waiting), done, answer);
                    done = k + 1;
                }
            }
        }
        collect(std::span(waiting).first(k - done), done, answer);
    }

private:
    static constexpr std::uint32_t absent = ~std::uint32_t{0};

    /// Part of a node's list: positions up to `end` are at position + shift of a block.
    struct run {
        std::uint32_t end, shift; // shift modulo 2³²
        const resident_block* from;
        node_id other;
    };
    struct place {
        const resident_block* from;
        std::uint32_t at;
        node_id other; ///< first node of the partner
    };
    using places = std::array<place, 512>;

    [[nodiscard]] static std::vector<partition_id> same_partitions(const resident_csr* out, const resident_csr* in) {
        if (out == nullptr && in == nullptr)
            throw error(errc::invalid_argument, "a graph needs its incoming or its outgoing lists");
        if (out != nullptr && in != nullptr && !std::ranges::equal(out->resident(), in->resident()))
            throw error(errc::invalid_argument, "incoming and outgoing lists are of different partitions");
        const auto resident = (in != nullptr ? in : out)->resident();
        return {resident.begin(), resident.end()};
    }
    [[nodiscard]] bool merged() const noexcept { return merged_out_ || merged_in_; }
    [[nodiscard]] detail::list_pair<resident_csr> lists(neighbor_direction d) const {
        return detail::list_pair<resident_csr>::of(merged_in_.get(), merged_out_.get(), d);
    }

    void check(neighbor_direction d) const {
        if (keeps_ != neighbor_direction::both && keeps_ != d)
            throw error(errc::invalid_argument, "the graph does not store this direction");
    }

    /// Calls visit(block, first, last, first node of the partner) in the order of the node's list, for positions
    /// [first, last) of the block.
    template <class Visit>
    void for_each_run(node_id v, neighbor_direction d, Visit&& visit) const {
        for_each_block(v, d, [&](const resident_block& b, std::uint32_t local, node_id other, bool without_loops) {
            const auto [first, last] = b.edges_of(local);
            if (!without_loops) return visit(b, first, last, other);
            const auto [loops, after] = b.self_loops_of(local);
            visit(b, first, loops, other);
            visit(b, after, last, other);
        });
    }

    /// Calls visit(block, local id, first node of the partner, without self loops) in the order of the node's list.
    template <class Visit>
    void for_each_block(node_id v, neighbor_direction d, Visit&& visit) const {
        const partition_id own = finder_.of(v);
        const std::uint32_t at = place_[own];
        if (at == absent) return;
        const std::uint32_t local = v - begin_[at];
        const auto walk = [&](const std::vector<block>& blocks, bool without_loops) {
            const std::size_t row = at * resident_.size();
            for (std::size_t j = 0; j < resident_.size(); ++j)
                if (blocks[row + j]) visit(*blocks[row + j], local, begin_[j], without_loops && j == at);
        };
        if (d != neighbor_direction::in) walk(out_, false);
        if (d != neighbor_direction::out) walk(in_, d == neighbor_direction::both);
    }

    static void collect(
        std::span<const place> from, std::size_t first, const neighbor_answer<node_id>& answer) noexcept {
        for (std::size_t k = 0; k < from.size(); ++k) {
            const edge_block& b = from[k].from->block();
            answer.neighbors[first + k] = from[k].other + b.neighbors[from[k].at];
            if (!answer.relations.empty())
                answer.relations[first + k] = b.relations.empty() ? 0 : b.relations[from[k].at];
            if (!answer.edge_ids.empty()) answer.edge_ids[first + k] = from[k].from->edge_id(from[k].at);
        }
    }

    row_partitioning rows_;
    neighbor_direction keeps_;
    row_finder finder_;
    std::vector<partition_id> resident_;
    std::shared_ptr<const resident_csr> merged_out_, merged_in_;
    // The union of blocks.
    std::vector<std::uint32_t> place_; // index of each partition among the resident ones
    std::vector<node_id> begin_;       // first node of each resident partition
    std::vector<block> out_, in_;
};

static_assert(neighbor_source<resident_graph>);

} // namespace gneiss
