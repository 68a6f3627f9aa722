// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss::detail {

/// Lists copied out of a stream, concatenated.
struct kept_lists {
    std::vector<node_id> nodes{};
    std::vector<std::uint32_t> offsets{0}; ///< [nodes + 1]
    std::vector<node_id> neighbors{};

    /// Copies list i. Throws errc::out_of_range, and keeps what it has, if 32-bit offsets cannot address it.
    void keep(const adjacency_chunk& chunk, std::size_t i) {
        const auto list = chunk.list(i);
        if (list.size() > std::numeric_limits<std::uint32_t>::max() - neighbors.size())
            throw error(errc::out_of_range,
                "the nodes of one block that want another part have more neighbors than 32-bit offsets can address");
        nodes.push_back(chunk.node(i));
        neighbors.insert(neighbors.end(), list.begin(), list.end());
        offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
    }
    void clear() noexcept {
        nodes.clear();
        offsets.resize(1);
        neighbors.clear();
    }
    /// View for `offsets` and `neighbors` only: the nodes are not consecutive.
    [[nodiscard]] adjacency_chunk lists() const noexcept { return {0, offsets, neighbors}; }
};

inline constexpr std::size_t proposal_block = 8192; ///< nodes

/// Runs one pass in which few nodes change. Several threads examine blocks of consecutive nodes against the state at
/// the start of the block. Nodes that want a change are then examined again, one by one in order, after all changes
/// before theirs. So the result depends neither on threads nor on chunk borders.
///
///     wants(counts, chunk, i) -> bool      read-only; concurrent, for the lists i of a chunk in order
///     change(counts, lists, i, v)          second look at the list of node v, on one thread
///
/// `make_counts` creates `counts`, one per thread, with a member counts.begin(chunk).
/// Memory: lists of the nodes of one block that want a change.
template <class Counts, adjacency_stream Stream, executor E, class MakeCounts, class Wants, class Change>
void proposal_pass(Stream& stream, const partition_request& request, std::string_view phase, const E& executor,
    MakeCounts&& make_counts, Wants&& wants, Change&& change) {
    constexpr std::size_t block = proposal_block, grain = 512;
    object_pool<std::unique_ptr<Counts>> counters;
    const auto with_counts = [&](auto&& use) {
        counters.with([&] { return std::make_unique<Counts>(make_counts()); }, [&](auto& mine) { use(*mine); });
    };
    std::vector<std::uint8_t> wanted(block);
    kept_lists kept;
    const auto change_kept = [&] {
        with_counts([&](Counts& counts) {
            const adjacency_chunk lists = kept.lists();
            counts.begin(lists);
            for (std::size_t i = 0; i < kept.nodes.size(); ++i) change(counts, lists, i, kept.nodes[i]);
        });
        kept.clear();
    };
    stream.rewind();
    for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
        check_stop(request);
        for (std::size_t begin = 0; begin < chunk.size();) {
            const std::size_t left = block - chunk.node(begin) % block, size = std::min(left, chunk.size() - begin);
            parallel_for(executor, size, grain, [&](std::size_t first, std::size_t last) {
                with_counts([&](Counts& counts) {
                    const adjacency_chunk part{chunk.node(begin + first),
                        chunk.offsets.subspan(begin + first, last - first + 1), chunk.neighbors};
                    counts.begin(part);
                    for (std::size_t i = first; i < last; ++i) wanted[i] = wants(counts, part, i - first) ? 1 : 0;
                });
            });
            for (std::size_t i = 0; i < size; ++i)
                if (wanted[i] != 0) kept.keep(chunk, begin + i);
            begin += size;
            if (size == left) change_kept();
        }
        if (request.progress) request.progress(phase, std::uint64_t{chunk.first} + chunk.size(), stream.nodes());
    }
    change_kept();
}

} // namespace gneiss::detail
