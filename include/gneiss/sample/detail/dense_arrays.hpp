// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/detail/hop_draw.hpp>
#include <gneiss/sample/detail/node_numbering.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss::detail {

/// Hops of a DENSE sample, and the arrays from which `dense_sample` reads them. Memory is kept between samples.
template <node_id_type NodeId>
class dense_arrays {
public:
    /// Resets the hops and numbers the seeds 0, 1, …. Errors as in `number_seeds`. `graph` has nodes().
    template <class G>
    void begin(const G& graph, std::span<const NodeId> seeds) {
        starts_.assign(1, 0);
        number_seeds(numbering_, graph, seeds);
        starts_.push_back(static_cast<std::uint32_t>(seeds.size()));
    }
    [[nodiscard]] std::size_t hops() const noexcept { return starts_.size() - 2; }
    /// Returns the number of the first target of the next hop.
    [[nodiscard]] std::size_t first_target() const noexcept { return starts_[hops()]; }
    /// Nodes that appeared last, by number: the targets of the next hop.
    [[nodiscard]] std::span<const NodeId> nodes() const noexcept { return numbering_.nodes().subspan(first_target()); }
    /// Storage for the edges of the next hop, before `end_hop`.
    [[nodiscard]] hop_edges<NodeId>& next_hop() {
        if (hops_.size() == hops()) hops_.emplace_back();
        return hops_[hops()];
    }
    /// Numbers all nodes; a hop's neighbors are numbered before its end.
    [[nodiscard]] node_numbering<NodeId>& numbering() noexcept { return numbering_; }
    /// Ends the next hop, whose neighbors are numbered.
    void end_hop() { starts_.push_back(static_cast<std::uint32_t>(numbering_.nodes().size())); }

    /// Number of bytes that `write` adds to a mini-batch.
    [[nodiscard]] std::size_t bytes_needed(bool relations, bool edge_ids) const noexcept {
        const std::size_t nodes = starts_.back(), edges = edge_count();
        const auto bytes = [](std::size_t count, std::size_t width) { return mini_batch::array_bytes(count, width); };
        return bytes(starts_.size(), 4) + bytes(nodes, sizeof(NodeId)) + bytes(starts_[hops()] + std::size_t{1}, 4) +
            bytes(edges, sizeof(NodeId)) + bytes(edges, 4) + bytes(relations ? edges : 0, sizeof(relation_id)) +
            bytes(edge_ids ? edges : 0, sizeof(edge_index));
    }

    /// Adds the arrays of `dense_sample`. Throws `out_of_range` if they do not fit.
    template <executor E = serial_executor>
    void write(mini_batch& to, bool with_relations, bool with_edge_ids, const E& executor = {}) const {
        const std::size_t hops = this->hops(), edges = edge_count();
        const std::uint32_t nodes = starts_.back();
        if (edges >> 32 != 0) throw error(errc::out_of_range, "a sample has 2^32 edges or more");
        const auto node_id_offsets = to.add<std::uint32_t>("node_id_offsets", hops + 2);
        const auto node_ids = to.add<NodeId>("node_ids", nodes);
        const auto nbr_offsets = to.add<std::uint32_t>("nbr_offsets", starts_[hops] + std::size_t{1});
        const auto nbrs = to.add<NodeId>("nbrs", edges);
        const auto repr_map = to.add<std::uint32_t>("repr_map", edges);
        const auto relations = to.add<relation_id>("edge_relations", with_relations ? edges : 0);
        const auto edge_ids = to.add<edge_index>("edge_ids", with_edge_ids ? edges : 0);
        // Deltas are numbered from the seeds on and stored in the opposite order, each unchanged.
        for (std::size_t d = 0; d <= hops; ++d) { // the d-th from the seeds is Δ_{hops − d}
            const std::uint32_t begin = nodes - starts_[d + 1];
            node_id_offsets[hops - d] = begin;
            std::ranges::copy(
                numbering_.nodes().subspan(starts_[d], starts_[d + 1] - starts_[d]), node_ids.begin() + begin);
        }
        node_id_offsets[hops + 1] = nodes;
        std::size_t first = 0;
        auto offset = nbr_offsets.begin();
        for (std::size_t hop = hops; hop-- > 0;) {
            const auto& from = hops_[hop];
            for (std::size_t v = 0; v + 1 < from.offsets.size(); ++v)
                *offset++ = static_cast<std::uint32_t>(first) + from.offsets[v];
            parallel_for(executor, from.neighbors.size(), 65536, [&](std::size_t begin, std::size_t end) {
                const auto copy = [&](const auto& source, auto target) {
                    if (!source.empty())
                        std::copy(source.begin() + static_cast<std::ptrdiff_t>(begin),
                            source.begin() + static_cast<std::ptrdiff_t>(end),
                            target.begin() + static_cast<std::ptrdiff_t>(first + begin));
                };
                copy(from.neighbors, nbrs);
                copy(from.relations, relations);
                copy(from.edge_ids, edge_ids);
                stack(std::span<const std::uint32_t>(from.numbers).subspan(begin, end - begin),
                    repr_map.subspan(first + begin));
            });
            first += from.neighbors.size();
        }
        *offset = static_cast<std::uint32_t>(first);
    }

private:
    [[nodiscard]] std::size_t edge_count() const noexcept {
        std::size_t edges = 0;
        for (std::size_t hop = 0; hop < hops(); ++hop) edges += hops_[hop].neighbors.size();
        return edges;
    }

    /// Maps numbers to rows of the stored deltas: delta d, numbered from starts[d] on, begins at U − starts[d + 1].
    void stack(std::span<const std::uint32_t> numbers, std::span<std::uint32_t> rows) const noexcept {
        constexpr std::size_t block = 1024; // a pass per delta, in the nearest cache
        // numbers are below 2³¹; any vector unit compares them
        const auto as_signed = [](std::uint32_t number) { return static_cast<std::int32_t>(number); };
        for (std::size_t count; !numbers.empty(); numbers = numbers.subspan(count), rows = rows.subspan(count)) {
            count = std::min(block, numbers.size());
            for (std::size_t e = 0; e < count; ++e) rows[e] = numbers[e] + (starts_.back() - starts_[1]);
            for (std::size_t d = 1; d + 1 < starts_.size(); ++d) {
                const std::int32_t start = as_signed(starts_[d]);
                const std::uint32_t shift = starts_[d + 1] - starts_[d - 1];
                for (std::size_t e = 0; e < count; ++e) rows[e] -= as_signed(numbers[e]) >= start ? shift : 0U;
            }
        }
    }

    node_numbering<NodeId> numbering_;
    std::vector<hop_edges<NodeId>> hops_;     // the first hops() belong to the sample
    std::vector<std::uint32_t> starts_{0, 0}; // first number of each delta from the seeds on, then the count
};

} // namespace gneiss::detail
