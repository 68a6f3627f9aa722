// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss::detail {

/// Lists that were copied out of a stream, one after the other.
struct kept_lists {
    std::vector<node_id> nodes{};
    std::vector<std::uint32_t> offsets{0}; ///< [nodes + 1]
    std::vector<node_id> neighbors{};

    void keep(const adjacency_chunk& chunk, std::size_t i) {
        const auto list = chunk.list(i);
        nodes.push_back(chunk.node(i));
        neighbors.insert(neighbors.end(), list.begin(), list.end());
        offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
    }
    void clear() noexcept {
        nodes.clear();
        offsets.resize(1);
        neighbors.clear();
    }
    /// For `offsets` and `neighbors` alone: the nodes are not consecutive.
    [[nodiscard]] adjacency_chunk lists() const noexcept { return {0, offsets, neighbors}; }
};

inline constexpr std::size_t proposal_block = 8192; ///< nodes

/// One pass in which few nodes change anything. Nodes are looked at in blocks of consecutive ones, by several threads
/// and with the state as it is when the block begins; those that want a change are then asked again, one by one in
/// their order, when all changes before theirs were made. So the result depends neither on threads nor on where chunks
/// end.
///
///     wants(counts, chunk, i) -> bool      reads; at once on several threads, of the lists i of a chunk in order
///     change(counts, lists, i, v)          the list of node v again, by one thread
///
/// `counts`, with counts.begin(chunk), is what `make_counts` gives, one for each thread.
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
