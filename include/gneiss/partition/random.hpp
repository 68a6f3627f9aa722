// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss {

/// Random partitioner: the baseline for others, with the best balance.
///
///     const std::vector<partition_id16> parts = random_partitioner{}(stream, {.parts = 64}, executor);
///
/// Balanced by nodes, it deals out a random permutation, so parts differ by at most one node; the edges are not read.
/// Balanced by edges, it draws a part per node and takes the first part with room from there, cyclically; if none has
/// room, the lightest.
/// Key: (seed, partition, 1), and the node when balanced by edges.
///
/// Cost: O(nodes); by edges one pass, and O(k) for a node that meets full parts. Memory: 2 bytes per node, 8 per part.
/// Errors: errc::unsupported for a label cap.
struct random_partitioner {
    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E&) const {
        const std::uint64_t nodes = stream.nodes();
        check_request(request, nodes);
        check_without_labels(request, "random");
        const random_key key = random_key{request.seed, random_domain::partition}.with(1);
        std::vector<partition_id16> part(static_cast<std::size_t>(nodes));
        if (request.balance == balance_by::nodes) {
            const keyed_permutation order(nodes, key);
            for (std::size_t v = 0; v < part.size(); ++v)
                part[v] = static_cast<partition_id16>(order(v) % request.parts);
            return part;
        }
        const std::uint64_t cap =
            max_weight(total_weight(request.balance, nodes, stream.arcs()), request.parts, request.imbalance);
        std::vector<std::uint64_t> weights(request.parts);
        stream.rewind();
        for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
            for (std::size_t i = 0; i < chunk.size(); ++i) {
                const node_id v = chunk.node(i);
                const std::uint64_t weight = node_weight(request.balance, chunk.list(i).size());
                std::uint32_t p = static_cast<std::uint32_t>(below(key[v], request.parts)), tried = 0;
                for (; tried < request.parts && weights[p] + weight > cap; ++tried)
                    p = p + 1 == request.parts ? 0 : p + 1;
                if (tried == request.parts)
                    p = static_cast<std::uint32_t>(std::ranges::min_element(weights) - weights.begin());
                weights[p] += weight;
                part[v] = static_cast<partition_id16>(p);
            }
            check_stop(request);
            if (request.progress) request.progress("random", std::uint64_t{chunk.first} + chunk.size(), nodes);
        }
        return part;
    }

    [[nodiscard]] std::uint64_t memory(
        std::uint64_t nodes, edge_index, const partition_request& request) const noexcept {
        return 2 * nodes + 8 * std::uint64_t{request.parts};
    }
};

static_assert(partitioner<random_partitioner>);

} // namespace gneiss
