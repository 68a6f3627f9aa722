// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/lru.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Superbatches of Belady's cache over a long trace: each is known as a whole, and nothing beyond it.
struct superbatch_caching {
    std::size_t capacity = 0; ///< rows that the cache holds
    std::size_t batches = 1;  ///< per superbatch; the last one may have fewer
    /// keep rows from one superbatch to the next; false: start each with an empty cache, as Ginex does
    bool carry = true;
    std::uint64_t nodes = 0; ///< as in `belady_options`
};

/// Counts hits and misses of Belady's cache on a trace, superbatch by superbatch; fills are summed over all of them.
/// Cost and memory: those of `belady_policy` for one superbatch, plus 20 bytes per slot. Errors as `belady_policy`;
/// errc::invalid_argument for superbatches without batches.
template <access_trace Trace, executor E>
[[nodiscard]] cache_counts simulate_belady(Trace& trace, const superbatch_caching& options, const E& executor) {
    if (options.batches == 0) throw error(errc::invalid_argument, "a superbatch has no batches");
    cache_counts counts;
    simulated_cache cache(options.capacity);
    change_set changes;
    std::vector<node_id> room, resident;
    for (std::size_t first = 0; first < trace.batches(); first += options.batches) {
        trace_part<Trace> part(trace, first, options.batches);
        if (!options.carry) cache = simulated_cache(options.capacity);
        resident.assign(cache.rows().begin(), cache.rows().end());
        belady_policy policy(
            part, {.capacity = options.capacity, .nodes = options.nodes, .resident = resident}, executor);
        cache.apply(policy.fill());
        counts.fills += policy.fill().in.size();
        for (std::size_t batch = 0; batch < part.batches(); ++batch)
            simulate_batch(policy, part.read(batch, room), cache, changes, counts);
    }
    return counts;
}

/// Counts hits and misses of an LRU cache of whole pages: a model of memory-mapped rows, whose pages the operating
/// system reads and caches. Row i occupies the bytes [i · row_bytes, (i + 1) · row_bytes) and touches each page that
/// they overlap.
///
/// Counts are pages, each once per batch in the order of its rows; `cached_bytes` of them fit.
/// Cost: O(accesses · pages per row); memory 40 bytes per page. Errors: errc::invalid_argument for empty rows or pages;
/// errc::out_of_range for 2³² pages.
template <access_trace Trace>
[[nodiscard]] cache_counts simulate_pages(
    Trace& trace, std::uint64_t row_bytes, std::uint64_t cached_bytes, std::uint64_t page_bytes = 4096) {
    if (row_bytes == 0 || page_bytes == 0) throw error(errc::invalid_argument, "rows and pages have at least a byte");
    lru policy(static_cast<std::size_t>(cached_bytes / page_bytes));
    simulated_cache cache(policy.capacity());
    cache_counts counts;
    change_set changes;
    std::vector<node_id> room, pages;
    std::vector<std::pair<node_id, std::uint32_t>> seen; // page, order of its first touch
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        seen.clear();
        for (const node_id row : trace.read(batch, room)) {
            const std::uint64_t first = row * row_bytes / page_bytes,
                                last = ((row + std::uint64_t{1}) * row_bytes - 1) / page_bytes;
            if (last >= std::numeric_limits<node_id>::max())
                throw error(errc::out_of_range, "rows take 2^32 pages or more");
            for (std::uint64_t page = first; page <= last; ++page)
                seen.emplace_back(static_cast<node_id>(page), static_cast<std::uint32_t>(seen.size()));
        }
        std::ranges::sort(seen);
        const auto repeated = std::ranges::unique(seen, {}, &std::pair<node_id, std::uint32_t>::first);
        seen.erase(repeated.begin(), repeated.end());
        std::ranges::sort(seen, {}, &std::pair<node_id, std::uint32_t>::second);
        pages.clear();
        for (const auto& [page, order] : seen) pages.push_back(page);
        simulate_batch(policy, pages, cache, changes, counts);
    }
    return counts;
}

} // namespace gneiss
