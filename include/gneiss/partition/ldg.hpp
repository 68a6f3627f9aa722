// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/greedy.hpp>

namespace gneiss {

/// Linear deterministic greedy (LDG) partitioner: a node goes where neighbors · (1 − weight / cap) is highest. Ties go
/// to the lightest part, then to the first. Nodes are placed in the order of their numbers.
///
///     const std::vector<partition_id16> parts = ldg_partitioner{.passes = 5}(stream, {.parts = 64}, executor);
///
/// Cost: O(arcs + nodes log k) per pass. Memory: 2 bytes per node, 68 per part, 256 KiB. Caps: `detail::greedy_engine`.
/// Errors: errc::unsupported for a label cap; errc::invalid_argument for 0 passes.
/// Source: Stanton and Kliot, KDD 2012, "Linear Deterministic Greedy"; passes: Nishimura and Ugander, KDD 2013.
///
/// From examples/28_partition.cpp:
/// \snippet 28_partition.cpp partition
struct ldg_partitioner {
    std::uint32_t passes = 1;                  ///< later passes move nodes one by one
    std::span<const partition_id16> initial{}; ///< [nodes] or empty: initial parts

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E&) const {
        check_request(request, stream.nodes());
        check_without_labels(request, "ldg");
        const std::uint64_t cap =
            max_weight(total_weight(request.balance, stream.nodes(), stream.arcs()), request.parts, request.imbalance);
        return detail::run_greedy(stream, request, rule{static_cast<double>(cap)}, {.cap = cap}, initial, passes);
    }

    [[nodiscard]] std::uint64_t memory(
        std::uint64_t nodes, edge_index, const partition_request& request) const noexcept {
        return detail::greedy_bytes(nodes, 1, request);
    }

private:
    struct rule {
        double cap;

        [[nodiscard]] double load_penalty(std::size_t, std::uint64_t load) const noexcept {
            return static_cast<double>(load) / cap;
        }
        [[nodiscard]] double score(std::uint32_t neighbors, double load_penalty) const noexcept {
            return neighbors == 0 ? 0 : neighbors * (1 - load_penalty);
        }
    };
};

static_assert(partitioner<ldg_partitioner>);

} // namespace gneiss
