// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/fennel_rule.hpp>
#include <gneiss/partition/detail/greedy.hpp>
#include <gneiss/partition/detail/pass_checkpoint.hpp>
#include <gneiss/partition/detail/repair_balance.hpp>
#include <gneiss/partition/refine.hpp>

namespace gneiss {

namespace detail {

/// Degree bands in descending order, from 0. Each band except the first is as wide as all lower ones together; the
/// seventh begins at the mean.
class degree_bands {
public:
    static constexpr std::uint32_t count = 11;

    explicit degree_bands(double mean) noexcept {
        for (std::uint32_t band = 0; band < count - 1; ++band)
            lowest_[band] = std::max(2., std::ldexp(mean, 6 - static_cast<int>(band)));
        lowest_[count - 2] = 2;
    }
    /// Band of a degree. The last band holds nodes with at most one neighbor.
    [[nodiscard]] std::uint32_t of(std::size_t degree) const noexcept {
        std::uint32_t band = 0;
        while (band < count - 1 && static_cast<double>(degree) < lowest_[band]) ++band;
        return band;
    }

private:
    double lowest_[count - 1]; // minimum degree per band
};

} // namespace detail

/// Partitioner that places nodes in descending degree bands, each node where FENNEL's score is highest and nodes with
/// at most one neighbor last, then refines. Hubs choose while every part has room, and their neighborhoods follow. Cuts
/// are near the best known on graphs with heavy-tailed degrees, independent of the node order.
///
///     const std::vector<partition_id16> parts = band_partitioner{}(stream, {.parts = 64}, executor);
///
/// Steps: one pass per non-empty band, at most 11, and `passes` of refinement.
/// Cost: O(arcs) per pass that reads the lists of a band, and O(nodes log k) in total. Bands run on one thread,
/// refinement on the threads of `executor`. Memory: 2 bytes per node (4 with a journal), 60 per part, 20 per part and
/// label, and `refine_bytes`.
/// Caps: exact, including label caps, if nodes weigh 1; else the cap on weight holds before those on labels, and a node
/// that fits nowhere goes to the lightest part (`detail::greedy_engine`).
/// Errors: those of `check_request`; errc::config_mismatch for another run's journal; errc::canceled.
/// Source: prioritized restreaming, Awadelkarim and Ugander, arXiv 2007.03131; the score: FENNEL, WSDM 2014.
struct band_partitioner {
    std::uint32_t passes = 4; ///< maximum passes of refinement

    template <adjacency_stream Stream, executor E>
    [[nodiscard]] std::vector<partition_id16> operator()(
        Stream& stream, const partition_request& request, const E& executor) const {
        check_request(request, stream.nodes());
        const detail::pass_checkpoint journal(request, stream.nodes(), 1);
        std::vector<partition_id16> parts = journal.done() != 0 ? journal.load() : place(stream, request);
        if (journal.done() == 0) journal.save(1, parts);
        refine_parts(stream, parts, request, passes, executor);
        return parts;
    }

    [[nodiscard]] std::uint64_t memory(std::uint64_t nodes, edge_index arcs, const partition_request& request) const {
        return detail::greedy_bytes(nodes, detail::limits_of(nodes, arcs, request).groups(), request) +
            refine_bytes(nodes, arcs, request);
    }

private:
    template <adjacency_stream Stream>
    [[nodiscard]] static std::vector<partition_id16> place(Stream& stream, const partition_request& request) {
        const std::uint64_t nodes = stream.nodes();
        const detail::degree_bands bands(
            static_cast<double>(stream.arcs()) / static_cast<double>(std::max<std::uint64_t>(nodes, 1)));
        detail::greedy_limits kept = detail::limits_of(nodes, stream.arcs(), request);
        const std::uint64_t total = kept.labels.empty() ? total_weight(request.balance, nodes, stream.arcs()) : nodes;
        const detail::fennel_rule rule(1.5, total, stream.arcs(), request.parts, kept.counts);
        detail::greedy_engine<detail::fennel_rule> engine(request, nodes, rule, std::move(kept));
        std::uint64_t members[detail::degree_bands::count] = {1}; // the first pass counts them
        for (std::uint32_t band = 0; band < detail::degree_bands::count; ++band) {
            if (members[band] == 0) continue;
            engine.pass(
                stream,
                [&](std::size_t degree) {
                    const std::uint32_t mine = bands.of(degree);
                    if (band == 0) ++members[mine];
                    return mine == band;
                },
                [&](std::uint64_t placed) {
                    check_stop(request);
                    if (request.progress) request.progress("band " + std::to_string(band + 1), placed, nodes);
                });
        }
        return std::move(engine).take();
    }
};

static_assert(partitioner<band_partitioner>);

} // namespace gneiss
