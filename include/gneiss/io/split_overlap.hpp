// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/io/dataset.hpp>

namespace gneiss {

/// Overlap of valid and test edges with other splits.
struct split_overlap {
    bool undirected = false; ///< each edge occurs equally often reversed: direction does not count
    /// different (source, relation, destination) of valid and test that also occur in another split
    std::uint64_t pairs = 0;
};

namespace detail {

/// Valid and test edges without their directions, and the splits in which each direction occurs.
class split_table {
public:
    static constexpr std::size_t edge_bytes = sizeof(edge) + 4 + 2; ///< memory per added edge

    explicit split_table(std::size_t edges) { entries_.reserve(edges); }

    void add(const edge& e, unsigned split) { entries_.push_back({ordered(e), mark(e, split)}); }
    /// Joins equal pairs. Ends `add`.
    void build() {
        std::ranges::sort(entries_, {}, &entry::pair);
        std::size_t kept = 0;
        for (const entry& each : entries_)
            if (kept != 0 && entries_[kept - 1].pair == each.pair)
                entries_[kept - 1].marks |= each.marks;
            else
                entries_[kept++] = each;
        entries_.resize(kept);
        may_hold_ = bitmap(std::bit_ceil(8 * kept));
        for (const entry& each : entries_) may_hold_.set(bit_of(each.pair));
    }
    /// Marks the pair of an edge if it is present. O(1) for nearly all absent ones, else a binary search.
    void meet(const edge& e, unsigned split) {
        const edge pair = ordered(e);
        if (!may_hold_[bit_of(pair)]) return;
        const auto found = std::ranges::lower_bound(entries_, pair, {}, &entry::pair);
        if (found != entries_.end() && found->pair == pair) found->marks |= mark(e, split);
    }
    /// Returns the numbers of triples, and of pairs of either direction, that occur in two or three splits.
    [[nodiscard]] std::array<std::uint64_t, 2> shared() const noexcept {
        std::array<std::uint64_t, 2> count{};
        const auto several = [](unsigned splits) { return std::popcount(splits) > 1; };
        for (const entry& each : entries_) {
            const unsigned forth = each.marks & 7U, back = each.marks >> 3U;
            count[0] += (several(forth) ? 1U : 0U) + (several(back) ? 1U : 0U);
            count[1] += several(forth | back) ? 1U : 0U;
        }
        return count;
    }
    [[nodiscard]] static std::uint64_t hash(const edge& e) noexcept {
        return mix64(mix64(std::uint64_t{e.source} << 32U | e.destination) + e.relation);
    }
    [[nodiscard]] static edge ordered(const edge& e) noexcept {
        return {std::min(e.source, e.destination), e.relation, std::max(e.source, e.destination)};
    }

private:
    struct entry {
        edge pair;
        std::uint32_t marks; ///< bit `split`: from the smaller row to the larger; bit 3 + `split`: back
    };
    [[nodiscard]] static std::uint32_t mark(const edge& e, unsigned split) noexcept {
        return 1U << (split + (e.source > e.destination ? 3U : 0U));
    }
    [[nodiscard]] std::size_t bit_of(const edge& pair) const noexcept {
        return static_cast<std::size_t>(hash(pair)) & (may_hold_.size() - 1);
    }

    std::vector<entry> entries_;
    bitmap may_hold_;
};

} // namespace detail

/// Counts the pairs that occur in two splits.
///
/// A dataset does not record whether its graph is undirected. It counts as undirected if the training edges, or all
/// edges together, equal their reverse, which sums of hashes show. Then (u, r, v) in train and (v, r, u) in test are
/// one pair in two splits; in a directed graph only equal triples are.
///
/// Cost: training edges are read once for each `memory` bytes of valid and test edges, 18 bytes each; not at all
/// without such edges. Memory: `memory` (at least 1 MiB), and the edges of the largest bucket. Errors: those of
/// `dataset::split` and `bucket_store::read`.
[[nodiscard]] inline split_overlap find_split_overlap(const dataset& data, std::uint64_t memory) {
    const std::array<mapped_edges, 2> held_out{data.split("valid"), data.split("test")};
    const std::uint64_t edges = held_out[0].edges().size() + held_out[1].edges().size();
    if (edges == 0) return {};
    const std::uint64_t tables =
        ceil_div(edges * detail::split_table::edge_bytes, std::max<std::uint64_t>(memory, std::uint64_t{1} << 20));
    std::array<std::uint64_t, 2> shared{};
    // difference of the two directions: hashes of edges minus those of their reverse
    std::uint64_t trained = 0, skew = 0, skew_held_out = 0;
    for (std::uint64_t part = 0; part < tables; ++part) {
        const auto here = [&](const edge& e) {
            return tables == 1 || mix64(detail::split_table::hash(detail::split_table::ordered(e))) % tables == part;
        };
        const auto skew_of = [](const edge& e) {
            return detail::split_table::hash(e) - detail::split_table::hash({e.destination, e.relation, e.source});
        };
        detail::split_table table(static_cast<std::size_t>(tables == 1 ? edges : edges / tables + edges / tables / 16));
        for (unsigned split : {1U, 2U})
            for (const edge& e : held_out[split - 1].edges()) {
                if (here(e)) table.add(e, split);
                if (part == 0) skew_held_out += skew_of(e);
            }
        table.build();
        if (data.has("edges.table"))
            data.buckets().for_each_edge([&](std::span<const edge> some) {
                for (const edge& e : some) {
                    table.meet(e, 0);
                    if (part == 0) skew += skew_of(e);
                }
                if (part == 0) trained += some.size();
            });
        const auto found = table.shared();
        for (std::size_t i = 0; i < 2; ++i) shared[i] += found[i];
    }
    const bool undirected = (trained != 0 && skew == 0) || skew + skew_held_out == 0;
    return {undirected, shared[undirected ? 1 : 0]};
}

} // namespace gneiss
