// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/detail/check_plan.hpp>

namespace gneiss {

/// The edges among some partitions in one direction as compressed sparse rows over the nodes of these partitions: the
/// contents of their blocks, in the same order, as one list per node. Ids are row ids; nodes of other partitions have
/// no edges.
///
/// Filled partition by partition, so that only the blocks of one are in memory; then immutable and thread-safe. A
/// node's list is found in O(1). Memory: `bytes_needed`, and 4 bytes per partition of the dataset.
class resident_csr {
public:
    /// The edges between the partition being appended and a partner.
    struct part {
        partition_id partner = 0;          ///< the other partition of the edges
        const edge_block* block = nullptr; ///< indexed by the partition being appended; null: copied from `others`
        edge_index first_edge = 0;         ///< number of the bucket's edge 0 among all edges
    };

    /// \param resident  ascending
    /// \param edges     number of edges among them
    /// Throws errc::invalid_argument for partitions that do not ascend or do not exist.
    resident_csr(
        const row_partitioning& rows, std::vector<partition_id> resident, edge_index edges, const csr_options& columns)
        : rows_(rows),
          finder_(rows),
          resident_(std::move(resident)),
          skipped_(rows.partitions, absent) {
        detail::check_resident(resident_, rows.partitions);
        std::uint64_t nodes = 0;
        for (const partition_id p : resident_) {
            skipped_[p] = static_cast<node_id>(rows.begin(p) - nodes);
            nodes += rows.size(p);
        }
        offsets_ = huge_page_vector<edge_index>(static_cast<std::size_t>(nodes) + 1);
        const auto take = [edges](auto& array) {
            array = std::remove_reference_t<decltype(array)>(static_cast<std::size_t>(edges));
            advise_huge_pages(array.data(), array.size_bytes());
        };
        take(neighbors_);
        if (columns.relations) take(relations_);
        if (columns.edge_ids) take(edge_ids_);
    }

    /// Returns the memory of the lists [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(
        std::uint64_t nodes, edge_index edges, const csr_options& columns) noexcept {
        return csr<>::bytes_needed(nodes, edges, columns) + 3 * page_alignment;
    }

    /// Appends the lists of the next resident partition.
    ///
    /// \param parts   by partner, ascending; all parts together have the number of edges given at construction
    /// \param others  lists to copy the edges of parts without a block from; both partitions are resident there
    /// Throws errc::invalid_argument if all lists were appended, for partners that do not exist, for parts without a
    /// block that `others` does not have, and for more edges than were given at construction. Blocks are those of their
    /// bucket: that is not checked here, `bucket_store` does.
    ///
    /// O(edges), and O(log degree) per node and copied part. Works in tiles of nodes whose lists fit in a near cache:
    /// parts visit them one after another.
    void append(std::span<const part> parts, const resident_csr* others = nullptr) {
        check(parts, others);
        constexpr std::uint64_t tile_edges = 1 << 14;
        const partition_id own = resident_[appended_++];
        const auto begin = static_cast<node_id>(rows_.begin(own)), size = static_cast<node_id>(rows_.size(own));
        std::uint64_t edges = 0;
        for (const part& p : parts)
            if (p.block != nullptr) edges += p.block->edges();
        const auto tile = static_cast<node_id>(std::clamp<std::uint64_t>(
            tile_edges * size / std::max<std::uint64_t>(edges, 1), 64, std::uint64_t{1} << 15));
        // per part, nodes whose lists were counted or copied
        std::vector<std::size_t> counted(parts.size(), 0), copied(parts.size(), 0);
        edge_index* const ends = offsets_.data() + (begin - skipped_[own]) + 1;
        for (node_id first = 0; first < size; first += std::min(tile, size - first)) {
            const node_id last = first + std::min(tile, size - first);
            const auto for_each_run = [&](const part& p, std::size_t& next, auto&& visit) {
                if (p.block == nullptr) return others->for_each_run(begin, first, last, p.partner, visit);
                const std::uint32_t* const nodes = p.block->nodes.data();
                const std::uint32_t* const starts = p.block->starts.data();
                std::size_t i = next;
                for (const std::size_t end = p.block->nodes.size(); i < end && nodes[i] < last; ++i)
                    visit(nodes[i], std::size_t{starts[i]}, std::size_t{starts[i + 1]});
                next = i;
            };
            for (std::size_t k = 0; k < parts.size(); ++k)
                for_each_run(
                    parts[k], counted[k], [&](node_id v, std::size_t from, std::size_t to) { ends[v] += to - from; });
            // Until they are filled, lists end where they begin.
            edge_index sum = *(ends + first - 1);
            for (node_id v = first; v < last; ++v) sum += std::exchange(ends[v], sum);
            if (sum > neighbors_.size())
                throw error(errc::invalid_argument,
                    "more edges are appended than the " + std::to_string(neighbors_.size()) +
                        " that lists were made for");
            for (std::size_t k = 0; k < parts.size(); ++k) {
                const part& p = parts[k];
                const node_id* const from_neighbors =
                    p.block != nullptr ? p.block->neighbors.data() : others->neighbors_.data();
                const node_id shift = p.block != nullptr ? static_cast<node_id>(rows_.begin(p.partner)) : 0;
                node_id* const to_neighbors = neighbors_.data();
                const bool more = !relations_.empty() || !edge_ids_.empty();
                for_each_run(p, copied[k], [&](node_id v, std::size_t from, std::size_t to) {
                    const std::size_t at = static_cast<std::size_t>(ends[v]);
                    to_neighbors[at] = from_neighbors[from] + shift; // most runs are of one edge
                    for (std::size_t e = from + 1; e < to; ++e)
                        to_neighbors[at + (e - from)] = from_neighbors[e] + shift;
                    if (more) copy_more(p, others, from, to, at);
                    if (p.partner == own && !has_self_loops_)
                        has_self_loops_ = std::binary_search(
                            from_neighbors + from, from_neighbors + to, p.block != nullptr ? v : begin + v);
                    ends[v] = at + (to - from);
                });
            }
        }
    }

    /// Returns the partitions, ascending.
    [[nodiscard]] std::span<const partition_id> resident() const noexcept { return resident_; }
    [[nodiscard]] edge_index edges() const noexcept { return neighbors_.size(); }

    // The list of a node, by its id.
    [[nodiscard]] edge_index begin(node_id v) const noexcept {
        const node_id skipped = skipped_[finder_.of(v)];
        return skipped == absent ? 0 : offsets_[v - skipped];
    }
    [[nodiscard]] std::uint32_t degree(node_id v) const noexcept {
        const node_id skipped = skipped_[finder_.of(v)];
        if (skipped == absent) return 0;
        const edge_index* const at = offsets_.data() + (v - skipped);
        return static_cast<std::uint32_t>(at[1] - at[0]);
    }
    void prefetch_offsets(node_id v) const noexcept {
        const node_id skipped = skipped_[finder_.of(v)];
        if (skipped != absent) prefetch(offsets_.data() + (v - skipped));
    }

    /// Returns true if the lists have self loops.
    [[nodiscard]] bool has_self_loops() const noexcept { return has_self_loops_; }
    /// Returns the self loops of a node in its list. O(log degree); O(1) in lists without.
    [[nodiscard]] detail::self_loop_run self_loops(node_id v) const noexcept {
        if (!has_self_loops_) return {};
        return detail::self_loops_in(neighbors().subspan(static_cast<std::size_t>(begin(v)), degree(v)), v);
    }

    // All lists; the last two are empty if absent.
    [[nodiscard]] std::span<const node_id> neighbors() const noexcept { return {neighbors_.data(), neighbors_.size()}; }
    [[nodiscard]] std::span<const relation_id> relations() const noexcept {
        return {relations_.data(), relations_.size()};
    }
    [[nodiscard]] std::span<const edge_index> edge_ids() const noexcept { return {edge_ids_.data(), edge_ids_.size()}; }

private:
    static constexpr node_id absent = ~node_id{0};

    void check(std::span<const part> parts, const resident_csr* others) const {
        const auto need = [](bool holds, const char* what) {
            if (!holds) throw error(errc::invalid_argument, what);
        };
        need(appended_ < resident_.size(), "lists of more partitions are appended than are resident");
        const auto there = [&](partition_id p) { return others->skipped_[p] != absent; };
        for (const part& p : parts) {
            need(p.partner < rows_.partitions, "a part of the lists has a partner that does not exist");
            if (p.block != nullptr) continue;
            need(others != nullptr && others->rows_ == rows_ && there(resident_[appended_]) && there(p.partner) &&
                    (relations_.empty() || others->relations_.size() == others->neighbors_.size()) &&
                    (edge_ids_.empty() || others->edge_ids_.size() == others->neighbors_.size()),
                "a part of the lists has no block, and no other lists have its edges");
        }
    }

    /// Calls visit(v, first place, last place) for v in [first, last) with the run of node begin + v's neighbors in a
    /// partition.
    template <class Visit>
    void for_each_run(node_id begin, node_id first, node_id last, partition_id partner, Visit&& visit) const {
        const std::uint64_t low = rows_.begin(partner), high = rows_.begin(partner + 1);
        const edge_index* const offsets = offsets_.data() + (begin - skipped_[finder_.of(begin)]);
        for (node_id v = first; v < last; ++v) {
            const node_id* const list = neighbors_.data() + offsets[v];
            const node_id* const end = neighbors_.data() + offsets[v + 1];
            const node_id* const from = std::lower_bound(list, end, low);
            const node_id* const to = std::lower_bound(from, end, high);
            if (from != to)
                visit(v, static_cast<std::size_t>(from - neighbors_.data()),
                    static_cast<std::size_t>(to - neighbors_.data()));
        }
    }

    void copy_more(
        const part& p, const resident_csr* others, std::size_t from, std::size_t to, std::size_t at) noexcept {
        for (std::size_t e = from; e < to; ++e, ++at) {
            if (!relations_.empty())
                relations_[at] = p.block == nullptr ? others->relations_[e]
                    : p.block->relations.empty()    ? 0
                                                    : p.block->relations[e];
            if (!edge_ids_.empty())
                edge_ids_[at] = p.block == nullptr ? others->edge_ids_[e]
                                                   : p.first_edge + p.block->edge_id(static_cast<std::uint32_t>(e));
        }
    }

    row_partitioning rows_;
    row_finder finder_;
    std::vector<partition_id> resident_;
    std::vector<node_id> skipped_; // per partition: nodes before it that are not resident
    std::size_t appended_ = 0;     // resident partitions so far
    bool has_self_loops_ = false;
    std::vector<edge_index> offsets_;
    aligned_buffer<node_id> neighbors_;
    aligned_buffer<relation_id> relations_;
    aligned_buffer<edge_index> edge_ids_;
};

} // namespace gneiss
