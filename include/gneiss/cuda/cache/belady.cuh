// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/change_set.hpp>
#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/detail/belady_counts.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/cache/detail/belady_accesses.cuh>
#include <gneiss/cuda/cache/detail/belady_vectors.cuh>

namespace gneiss::cuda {

/// Maximum device memory for computing change sets, in addition to the change sets: 12 bytes per row that enters, 20
/// per row that leaves.
[[nodiscard]] inline memory_need belady_device_need(
    std::uint64_t accesses, std::uint64_t batches, const belady_options& options) {
    return {"change sets",
        34 * accesses + 4 * std::min(batches * batches, std::uint64_t{1} << 24) + 40 * batches * 32 +
            8 * std::uint64_t{options.capacity},
        memory_kind::device};
}

/// Change sets of a superbatch in the memory of a device, or of the host with Thrust's other systems: those of batch b
/// are in [starts[b], starts[b + 1]). Exactly the result of `gneiss::belady`.
struct belady_sets {
    thrust::device_vector<node_id> in{}, out{};           ///< rows that enter and leave, of all batches
    thrust::device_vector<std::uint32_t> in_position{};   ///< position in the batch of each row that enters
    std::vector<std::uint32_t> in_starts{}, out_starts{}; ///< [batches + 1]
    change_set fill{};                                    ///< initial rows of the cache
    std::vector<node_id> resident{};                      ///< in the cache after the last batch
};

/// Belady's cache as in `gneiss::belady_policy`, by algorithms over all accesses of the trace at once.
///
/// A stable sort by id links each access with the previous one of the same row. Counts of (batch, next batch) alone
/// determine how many rows of each list stay after a batch (`belady_counts`). So, except for one list per batch,
/// nothing depends on which rows they are: an access is a hit unless a batch since the previous access cut its whole
/// list. The one list that is cut in the middle is ranked by (resident before incoming, id), batch by batch, by one
/// scan over its accesses.
///
/// \param executor  a Thrust policy that runs everything; for a stream, `par_nosync` and a caching allocator are best.
/// Results are allocated by Thrust itself
/// \param ids       of all accesses, batch by batch; distinct within each
/// \param starts    [batches + 1] start of each batch
///
/// Cost: two sorts of the accesses, some passes over them, and two passes over one list per batch; nothing over nodes
/// or slots, unless rows without further use fill up the slots. Passes grow with batches² / 2²⁴. Memory:
/// `belady_device_need`. Errors: errc::out_of_range for a row beyond `options.nodes`; errc::invalid_argument for more
/// resident rows than slots, or a row that a batch requests twice; std::bad_alloc. Not thread-safe.
/// Source: that of `belady_policy`; the counts: Carlisle and Lloyd, Discrete Applied Mathematics 59(3), 1995
/// (k-colorable intervals).
template <class Policy>
[[nodiscard]] belady_sets belady(const Policy& executor, const thrust::device_vector<node_id>& ids,
    std::span<const std::uint32_t> starts, const belady_options& options);

/// Computes all change sets of a superbatch and calls `visit(batch, change_set)` for each in order: `gneiss::belady` on
/// another processor.
///
/// Memory: as above, charged to the budget's device memory, and the change sets on the host. Errors: as above, but
/// `over_budget`, or errc::over_budget with the size if memory is short; errc::out_of_range for 2³² accesses;
/// errc::corrupt for a batch without the rows it declares; errors of reading the trace.
template <class Policy, access_trace Trace, class Visit>
belady_outcome belady(
    const Policy& executor, Trace& trace, const belady_options& options, memory_budget& budget, Visit&& visit) {
    std::vector<std::uint32_t> starts{0};
    std::uint64_t total = 0;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        total += trace.size(batch);
        if (total >= detail::none) throw error(errc::out_of_range, "a trace has 2^32 accesses or more");
        starts.push_back(static_cast<std::uint32_t>(total));
    }
    const memory_need need = belady_device_need(total, trace.batches(), options);
    const memory_charge charge = budget.charge(need);
    std::vector<node_id> in, out;
    std::vector<std::uint32_t> in_position;
    belady_sets sets;
    try {
        thrust::device_vector<node_id> ids(total);
        std::vector<node_id> room;
        for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
            const std::span<const node_id> rows = trace.read(batch, room);
            if (rows.size() != starts[batch + 1] - starts[batch])
                throw error(errc::corrupt, "a trace does not have the rows that it declares");
            thrust::copy(rows.begin(), rows.end(), ids.begin() + starts[batch]);
        }
        sets = belady(executor, ids, starts, options);
        in = detail::on_host(executor, sets.in);
        out = detail::on_host(executor, sets.out);
        in_position = detail::on_host(executor, sets.in_position);
    } catch (const std::bad_alloc&) { // Thrust's own: the device, or the host, has less than the budget
        throw error(errc::over_budget, need.name + ": " + format_bytes(need.bytes) + " of memory were not there");
    }
    change_set changes;
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        const auto slice = [](auto& to, const auto& from, std::uint32_t begin, std::uint32_t end) {
            to.assign(from.begin() + begin, from.begin() + end);
        };
        slice(changes.in, in, sets.in_starts[batch], sets.in_starts[batch + 1]);
        slice(changes.in_position, in_position, sets.in_starts[batch], sets.in_starts[batch + 1]);
        slice(changes.out, out, sets.out_starts[batch], sets.out_starts[batch + 1]);
        visit(batch, std::as_const(changes));
    }
    return {sets.fill, sets.resident};
}

template <class Policy>
belady_sets belady(const Policy& executor, const thrust::device_vector<node_id>& ids,
    std::span<const std::uint32_t> starts, const belady_options& options) {
    using detail::raw;
    using counts = thrust::device_vector<std::uint32_t>;
    const std::size_t size = ids.size(), batches = starts.size() - 1;
    const auto first = thrust::counting_iterator<std::uint64_t>(0), last = first + static_cast<std::ptrdiff_t>(size);
    if (options.resident.size() > options.capacity)
        throw error(errc::invalid_argument,
            std::to_string(options.resident.size()) + " resident rows in a cache of " +
                std::to_string(options.capacity) + " slots");
    std::vector<node_id> resident(options.resident.begin(), options.resident.end());
    std::ranges::sort(resident);

    // Accesses of each row in order, and of each batch by id.
    thrust::device_vector<node_id> sorted = ids;
    counts order(size), before(size), left(size), begins = detail::on_device(starts);
    thrust::device_vector<std::uint8_t> flags(size);
    detail::belady_accesses all;
    all.batches = static_cast<std::uint32_t>(batches);
    all.starts = raw(begins);
    all.ids = thrust::raw_pointer_cast(ids.data());
    all.before = raw(before);
    all.order = raw(order);
    all.left = raw(left);
    all.flags = raw(flags);
    thrust::sequence(executor, order.begin(), order.end());
    thrust::stable_sort_by_key(executor, sorted.begin(), sorted.end(), order.begin());
    detail::wait_for(executor);
    const node_id largest = std::max(
        size == 0 ? node_id{0} : static_cast<node_id>(sorted.back()), resident.empty() ? node_id{0} : resident.back());
    if (options.nodes != 0 && largest >= options.nodes)
        throw error(errc::out_of_range,
            "row " + std::to_string(largest) + " of a trace over " + std::to_string(options.nodes) + " rows");
    counts first_carried(batches), first_others(batches);
    thrust::device_vector<node_id> carried = detail::on_device(std::span<const node_id>(resident));
    thrust::for_each(executor, first, last,
        detail::link_accesses{all, raw(order), raw(sorted), raw(carried), carried.size(), raw(before),
            raw(first_carried), raw(first_others)});
    if (const auto twice = thrust::find_if(executor, first, last, detail::is_asked_for_twice{all}); twice != last)
        throw error(errc::invalid_argument,
            "a batch asks for row " + std::to_string(static_cast<node_id>(ids[static_cast<std::size_t>(*twice)])) +
                " twice");
    counts used(resident.size());
    thrust::binary_search(executor, sorted.begin(), sorted.end(), carried.begin(), carried.end(), used.begin());

    // Rows resident before the first batch: how many, of which batches.
    std::vector<std::uint32_t> held = detail::on_host(executor, first_carried);
    const std::vector<std::uint32_t> others = detail::on_host(executor, first_others);
    std::size_t room = options.capacity, filled = 0;
    for (const std::uint32_t count : held) room -= count;
    std::uint32_t filled_until = 0;
    while (filled_until < batches && others[filled_until] <= room) {
        room -= others[filled_until];
        filled += others[filled_until];
        held[filled_until] += others[filled_until];
        ++filled_until;
    }
    if (filled_until < batches) held[filled_until] += static_cast<std::uint32_t>(room);

    // Number of rows that stay in each list, some batches at a time.
    gneiss::detail::belady_counts remaining(options.capacity, held);
    const std::size_t some = batches == 0 ? 0 : std::max<std::size_t>((std::size_t{1} << 24) / batches, 1);
    for (std::size_t from = 0; from < batches; from += some) {
        const std::size_t end = std::min(from + some, batches);
        counts next(batches * (end - from));
        thrust::for_each(executor, first, last,
            detail::count_next_uses{
                all, raw(order), static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(end), raw(next)});
        const std::vector<std::uint32_t> rows = detail::on_host(executor, next);
        for (std::size_t b = from; b < end; ++b)
            remaining.batch(std::span(rows).subspan((b - from) * batches, batches));
    }
    counts least = detail::on_device(std::span<const std::uint32_t>(remaining.least_cuts()));
    all.least = raw(least);
    thrust::transform(executor, order.begin(), order.end(), sorted.begin(), detail::batch_of{all});
    thrust::stable_sort_by_key(executor, sorted.begin(), sorted.end(), order.begin());
    sorted = {};

    // The rows that stay, list by list.
    if (filled_until < batches && room != 0) {
        const counts border = detail::chosen<std::uint32_t>(executor, order.begin() + starts[filled_until],
            starts[filled_until + 1] - starts[filled_until], detail::is_first_of_others{all});
        thrust::for_each(executor, border.begin(), border.begin() + static_cast<std::ptrdiff_t>(room),
            detail::mark_filled{raw(flags)});
        filled += room;
    }
    thrust::for_each(executor, first, last, detail::begin_accesses{all, filled_until});
    std::uint32_t longest = 0;
    for (std::size_t b = 0; b < batches; ++b) longest = std::max(longest, starts[b + 1] - starts[b]);
    thrust::device_vector<std::uint64_t> ranks(longest);
    for (std::uint32_t now = 0; now < batches; ++now) {
        const auto& cut = remaining.cuts()[now];
        if (cut.list == detail::none) continue;
        const std::uint32_t rows = starts[cut.list + 1] - starts[cut.list];
        const auto place = thrust::counting_iterator<std::uint32_t>(0);
        const auto kinds = thrust::make_transform_iterator(place, detail::count_kinds{all, cut.list, now});
        thrust::inclusive_scan(executor, kinds, kinds + rows, ranks.begin());
        thrust::for_each(
            executor, place, place + rows, detail::cut_list{all, cut.list, now, rows, cut.kept, raw(ranks)});
    }

    // Rows that enter and leave.
    belady_sets result;
    thrust::for_each(executor, first, last, detail::announce_next_use{all});
    {
        const counts in = detail::chosen<std::uint32_t>(
            executor, first, size, detail::has_flag{raw(flags), detail::belady_accesses::goes_in});
        result.in = detail::mapped<node_id>(executor, in, detail::id_of{all.ids});
        result.in_position = detail::mapped<std::uint32_t>(executor, in, detail::position_of{all});
        result.in_starts = detail::starts_of(
            executor, detail::mapped<std::uint32_t>(executor, in, detail::batch_of{all}), all.batches);
        const counts fill = detail::chosen<std::uint32_t>(
            executor, first, size, detail::has_flag{raw(flags), detail::belady_accesses::filled});
        result.fill.in = detail::on_host(executor, detail::mapped<node_id>(executor, fill, detail::id_of{all.ids}));
        for (std::uint32_t i = 0; i < result.fill.in.size(); ++i) result.fill.in_position.push_back(i);
    }
    std::vector<node_id> unused;
    const std::vector<std::uint32_t> is_used = detail::on_host(executor, used);
    for (std::size_t i = 0; i < resident.size(); ++i)
        if (is_used[i] == 0) unused.push_back(resident[i]);
    if (const std::size_t free = options.capacity - resident.size(); result.fill.in.size() > free) {
        const auto kept = unused.end() - static_cast<std::ptrdiff_t>(result.fill.in.size() - free);
        result.fill.out.assign(kept, unused.end());
        unused.erase(kept, unused.end());
    }
    const counts last_hits =
        detail::chosen<std::uint32_t>(executor, order.begin(), size, detail::hit_for_the_last_time{all});
    const auto entered = detail::mapped<node_id>(executor, last_hits, detail::id_of{all.ids});
    const std::vector<std::uint32_t> entered_until = detail::starts_of(
        executor, detail::mapped<std::uint32_t>(executor, last_hits, detail::batch_of{all}), all.batches);
    std::vector<std::size_t> leaving(batches);
    std::size_t there = unused.size(), leave = 0;
    for (std::size_t b = 0; b < batches; ++b) {
        there += entered_until[b + 1] - entered_until[b];
        const std::uint64_t wanted = remaining.cuts()[b].wanted + there;
        leaving[b] = std::min<std::size_t>(
            there, static_cast<std::size_t>(wanted - std::min<std::uint64_t>(wanted, options.capacity)));
        there -= leaving[b];
        leave += leaving[b];
    }
    auto keys = detail::mapped<std::uint64_t>(
        executor, detail::chosen<std::uint32_t>(executor, first, size, detail::leaves{all}), detail::leaving_key{all});
    detail::wait_for(executor);
    std::size_t at = keys.size();
    keys.resize(at + leave);
    detail::unused_rows<Policy> rest(executor, unused);
    for (std::uint32_t b = 0; b < batches; at += leaving[b++])
        rest.after(b, entered, entered_until[b + 1], leaving[b], keys.begin() + static_cast<std::ptrdiff_t>(at));
    thrust::sort(executor, keys.begin(), keys.end());
    result.out = detail::mapped<node_id>(executor, keys, detail::low_half{});
    result.out_starts =
        detail::starts_of(executor, detail::mapped<std::uint32_t>(executor, keys, detail::high_half{}), all.batches);
    result.resident = rest.rows(entered);
    detail::wait_for(executor);
    return result;
}

} // namespace gneiss::cuda
