// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Calls visit(batch, misses) for each batch of a trace, in order: the rows that are not in the cache when the batch is
/// gathered, in the batch's order.
///
///     bitmap cached = …;                                  // after the fill
///     for_each_miss(trace, &changes, cached, [&](std::size_t batch, std::span<const node_id> misses) { … });
///
/// Cost: O(accesses), one pass over the trace and the change sets. Memory: a batch.
/// Errors: errc::invalid_argument if there are fewer change sets than batches; errc::corrupt for a position beyond its
/// batch; errc::out_of_range for a row beyond `cached`; errors of reading.
/// \param changes  change sets from the first batch on; null: the cache never changes
/// \param cached   rows in the cache before the first batch; on return, those after the last
template <class Trace, class Changes, class Visit>
void for_each_miss(Trace& trace, Changes* changes, bitmap& cached, Visit&& visit) {
    static_assert(
        access_trace<Trace>, "for_each_miss: Trace must be a gneiss::access_trace, see gneiss/cache/concepts.hpp");
    static_assert(change_set_source<Changes>,
        "for_each_miss: Changes must be a gneiss::change_set_source, see gneiss/cache/concepts.hpp");
    std::vector<node_id> room, misses;
    change_set change;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        const std::span<const node_id> ids = trace.read(batch, room);
        misses.clear();
        for (const node_id id : ids) {
            if (id >= cached.size())
                throw error(errc::out_of_range,
                    "a batch asks for row " + std::to_string(id) + ", there are " + std::to_string(cached.size()));
            if (!cached[id]) misses.push_back(id);
        }
        visit(batch, std::span<const node_id>(misses));
        if (changes == nullptr) continue;
        if (!changes->next(change)) throw error(errc::invalid_argument, "there are more batches than change sets");
        for (const node_id id : change.out)
            if (id < cached.size()) cached.reset(id);
        for (const std::uint32_t at : change.in_position) {
            if (at >= ids.size()) throw error(errc::corrupt, "a change set puts in a row beyond its batch");
            cached.set(ids[at]);
        }
    }
}

} // namespace gneiss
