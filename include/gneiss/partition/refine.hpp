// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/neighbor_counts.hpp>
#include <gneiss/partition/detail/partition_capacity.hpp>
#include <gneiss/partition/detail/proposals.hpp>

namespace gneiss {

/// Statistics of refinement passes.
struct refinement {
    std::uint32_t passes = 0; ///< passes made
    std::uint64_t moves = 0;  ///< nodes moved
    std::uint64_t uncut = 0;  ///< net decrease of cut edges
};

namespace detail {

/// Computes the capacity left by given parts. One pass of the stream if nodes weigh their lists.
template <adjacency_stream Stream>
[[nodiscard]] partition_capacity room_of(
    Stream& stream, std::span<const partition_id16> parts, const partition_request& request) {
    partition_capacity room(request, stream.nodes(), stream.arcs());
    room.fill(part_weights(stream, parts, request.parts, request.balance), parts);
    return room;
}

/// Best part of a node, among its own and those it fits into: the one with most of its neighbors; on a tie its own,
/// unless another one is lighter even with the node.
struct best_part {
    partition_id16 part;
    std::uint32_t neighbors, at_home;
};
[[nodiscard]] inline best_part find_best_part(neighbor_counts& counts, std::size_t list, node_id v,
    std::uint64_t weight, std::span<const partition_id16> parts, const partition_capacity& room) {
    const partition_id16 home = parts[v];
    best_part best{home, 0, 0};
    counts.count(list, parts);
    counts.take([&](partition_id16 p, std::uint32_t n) {
        if (p == home)
            best.at_home = n;
        else if ((n > best.neighbors || (n == best.neighbors && room.weight(p) < room.weight(best.part))) &&
            room.fits(p, v, weight))
            best = {p, n, best.at_home};
    });
    if (best.neighbors < best.at_home ||
        (best.neighbors == best.at_home && room.weight(best.part) + weight >= room.weight(home)))
        best = {home, best.at_home, best.at_home};
    return best;
}

} // namespace detail

/// Maximum memory of `refine_parts`, without the parts [bytes], on up to eight threads, provided that the moving nodes
/// of a block have at most four times the usual number of neighbors.
[[nodiscard]] inline std::uint64_t refine_bytes(
    std::uint64_t nodes, edge_index arcs, const partition_request& request) {
    const std::uint64_t usual = detail::proposal_block * ceil_div(arcs, std::max<std::uint64_t>(nodes, 1));
    const std::uint64_t labels =
        request.labels.empty() || request.label_cap == 0 ? 0 : label_counts(request.labels).size();
    return 8 * detail::neighbor_counts::bytes(request.parts) + 8 * request.parts * (1 + labels) +
        8 * std::min(arcs, 4 * usual) + 9 * detail::proposal_block;
}

/// Refines given parts by label propagation: each node goes to the part with most of its neighbors, among those it fits
/// into; on a tie to a lighter one. A move never raises the cut and never breaks a cap. Stops early when a pass changes
/// fewer than one node in 2¹⁰.
///
/// \param parts  [nodes], below request.parts; changed in place
///
/// A self loop keeps a node in place. Ignores request.journal.
/// Cost: a pass reads the stream once, O(arcs), parallel over the threads of `executor`; the result does not depend on
/// their number. Memory: `refine_bytes`: 256 KiB per thread, 8 bytes per part and label, and the lists of moving nodes
/// among 8192.
/// Errors: those of `check_request` and `check_assignment`; errc::canceled; errc::out_of_range for 2³² neighbors of the
/// moving nodes among 8192. Source: Meyerhenke, Sanders and Schulz, arXiv 1404.4887, section IV.
template <adjacency_stream Stream, executor E>
refinement refine_parts(Stream& stream, std::span<partition_id16> parts, const partition_request& request,
    std::uint32_t passes, const E& executor) {
    check_request(request, stream.nodes());
    check_assignment(parts, request.parts, stream.nodes());
    detail::partition_capacity room = detail::room_of(stream, parts, request);
    refinement done;
    const auto weight = [&](const adjacency_chunk& chunk, std::size_t i) {
        return node_weight(request.balance, chunk.offsets[i + 1] - chunk.offsets[i]);
    };
    for (std::uint64_t moves = stream.nodes(); done.passes < passes && moves > stream.nodes() >> 10; ++done.passes) {
        moves = 0;
        detail::proposal_pass<detail::neighbor_counts>(
            stream, request, "refinement", executor, [&] { return detail::neighbor_counts(request.parts); },
            [&](detail::neighbor_counts& counts, const adjacency_chunk& chunk, std::size_t i) {
                const node_id v = chunk.node(i);
                return detail::find_best_part(counts, i, v, weight(chunk, i), parts, room).part != parts[v];
            },
            [&](detail::neighbor_counts& counts, const adjacency_chunk& lists, std::size_t i, node_id v) {
                const detail::best_part best = detail::find_best_part(counts, i, v, weight(lists, i), parts, room);
                if (best.part == parts[v]) return;
                room.leave(parts[v], v, weight(lists, i));
                room.enter(best.part, v, weight(lists, i));
                parts[v] = best.part;
                done.uncut += best.neighbors - best.at_home;
                ++moves;
            });
        done.moves += moves;
    }
    return done;
}

} // namespace gneiss
