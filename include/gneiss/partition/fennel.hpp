// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/fennel_rule.hpp>
#include <gneiss/partition/detail/greedy.hpp>

namespace gneiss {

/// FENNEL partitioner: a node goes where neighbors − αγ s^(γ−1) is highest, where s is the weight of the part and α = m
/// k^(γ−1) / W^γ for m edges and total node weight W. Ties go to the lightest part, then to the first. Nodes are placed
/// in the order of their numbers; neighbors count once per edge.
///
///     const std::vector<partition_id16> parts = fennel_partitioner{.passes = 5}(stream, {.parts = 64}, executor);
///
/// Cost: O(arcs + nodes log k) per pass, compared with O(arcs + nodes k) for scans of all parts. Memory: 2 bytes per
/// node, 68 per part, 256 KiB. Caps: `detail::greedy_engine`.
/// Errors: errc::unsupported for a label cap (see `gap_partitioner`); errc::invalid_argument, naming the option.
/// Source: Tsourakakis et al., WSDM 2014, sections 3 and 4; passes: Nishimura and Ugander, KDD 2013.
///
/// From examples/28_partition.cpp:
/// \snippet 28_partition.cpp partition
struct fennel_partitioner {
    double gamma = 1.5;                        ///< > 1: steepness of the load penalty
    std::optional<double> nu{};                ///< cap of a part as νW/k instead of request.imbalance; published: 1.1
    std::uint32_t passes = 1;                  ///< later passes move nodes one by one
    std::span<const partition_id16> initial{}; ///< [nodes] or empty: initial parts

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E&) const {
        check_request(request, stream.nodes());
        check_without_labels(request, "fennel");
        if (nu && !(*nu >= 1)) throw error(errc::invalid_argument, "a number of at least 1 is needed", {.field = "nu"});
        const std::uint64_t total = total_weight(request.balance, stream.nodes(), stream.arcs());
        const detail::fennel_rule rule(gamma, total, stream.arcs(), request.parts, {});
        const std::uint64_t cap = max_weight(total, request.parts, nu ? *nu - 1 : request.imbalance);
        return detail::run_greedy(stream, request, rule, {.cap = cap}, initial, passes);
    }

    [[nodiscard]] std::uint64_t memory(
        std::uint64_t nodes, edge_index, const partition_request& request) const noexcept {
        return detail::greedy_bytes(nodes, 1, request);
    }
};

static_assert(partitioner<fennel_partitioner>);

} // namespace gneiss
