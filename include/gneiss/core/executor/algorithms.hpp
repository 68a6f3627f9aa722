// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <iterator>
#include <mutex>
#include <ranges>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>

// Chunks depend only on the size and the grain, and partial results combine in chunk order; those of `parallel_sort`
// depend on the threads, too, but its result is unique. Every result is therefore the same for any number of threads,
// floating point included.
namespace gneiss {

/// Calls `body(begin, end)` over consecutive ranges of at most `grain` indices that cover [0, size).
template <executor E, class Body>
void parallel_for(const E& executor, std::size_t size, std::size_t grain, Body&& body) {
    grain = std::max<std::size_t>(grain, 1);
    executor.run(ceil_div(size, grain), [&](std::size_t chunk) {
        const std::size_t begin = chunk * grain;
        body(begin, std::min(size, begin + grain));
    });
}

/// Calls `make(begin, end)` over the ranges of `parallel_for`, and `take(begin, end)` over the same ranges in ascending
/// order, one at a time, each after its `make`. While one thread takes, the others make further ranges, so that serial
/// work hides behind parallel work. The caller takes, since it has in its cache the state of earlier takes; another
/// thread steps in when the caller is several ranges behind. Cost: one byte per range.
template <executor E, class Make, class Take>
void parallel_for_in_order(const E& executor, std::size_t size, std::size_t grain, Make&& make, Take&& take) {
    grain = std::max<std::size_t>(grain, 1);
    const std::size_t ranges = ceil_div(size, grain), patience = 4 * executor.concurrency();
    const auto over = [&](std::size_t range, auto& body) { body(range * grain, std::min(size, (range + 1) * grain)); };
    std::vector<std::atomic<bool>> made(ranges);
    std::atomic<std::size_t> begun{0}, taken{0}; // ranges from the first on; `turn` guards writes of `taken`
    std::mutex turn;
    const auto take_made = [&] {
        for (std::size_t range = taken; range < ranges && made[range]; taken = ++range) {
            taken = ranges; // after an exception nothing more is taken
            over(range, take);
        }
    };
    const std::thread::id caller = std::this_thread::get_id();
    executor.run(ranges, [&](std::size_t) {
        const std::size_t range = begun++; // ascending, in any order of tasks
        over(range, make);
        made[range] = true;
        if (std::this_thread::get_id() != caller && range < taken + patience) return;
        if (const std::unique_lock mine(turn, std::try_to_lock); mine) take_made();
    });
    take_made();
}

/// Folds `map(begin, end)` of every chunk with `combine`, starting from `identity`, in chunk order.
template <executor E, class T, class Map, class Combine = std::plus<>>
[[nodiscard]] T parallel_reduce(
    const E& executor, std::size_t size, std::size_t grain, T identity, Map&& map, Combine combine = {}) {
    grain = std::max<std::size_t>(grain, 1);
    std::vector<T> partial(ceil_div(size, grain), identity);
    parallel_for(
        executor, size, grain, [&](std::size_t begin, std::size_t end) { partial[begin / grain] = map(begin, end); });
    for (const T& value : partial) identity = combine(identity, value);
    return identity;
}

/// Replaces values[i] with the sum of values[0 … i−1] and returns the total. Two passes over the data.
template <executor E, std::ranges::random_access_range Range>
    requires std::ranges::sized_range<Range>
auto exclusive_scan(const E& executor, Range&& values, std::size_t grain = 65536) {
    using T = std::ranges::range_value_t<Range>;
    const std::size_t size = std::ranges::size(values);
    const auto at = std::ranges::begin(values);
    std::vector<T> start(ceil_div(size, grain));
    parallel_for(executor, size, grain, [&](std::size_t begin, std::size_t end) {
        T sum{};
        for (std::size_t i = begin; i < end; ++i) sum = static_cast<T>(sum + at[static_cast<std::ptrdiff_t>(i)]);
        start[begin / grain] = sum;
    });
    T total{};
    for (T& value : start) {
        const T mine = value;
        value = total;
        total = static_cast<T>(total + mine);
    }
    parallel_for(executor, size, grain, [&](std::size_t begin, std::size_t end) {
        T sum = start[begin / grain];
        for (std::size_t i = begin; i < end; ++i) {
            const T mine = at[static_cast<std::ptrdiff_t>(i)];
            at[static_cast<std::ptrdiff_t>(i)] = sum;
            sum = static_cast<T>(sum + mine);
        }
    });
    return total;
}

/// Sorts by `less`, a strict total order (equal elements are indistinguishable). O(n log n), no extra memory: ranges
/// are halved at their medians until every thread has some, where a merge of sorted ones would take half of the data
/// again.
template <executor E, std::ranges::random_access_range Range, class Less = std::less<>>
    requires std::ranges::sized_range<Range>
void parallel_sort(const E& executor, Range&& values, Less less = {}, std::size_t grain = 65536) {
    const std::size_t size = std::ranges::size(values);
    const auto first = std::ranges::begin(values);
    const auto at = [&](std::size_t i) { return first + static_cast<std::ptrdiff_t>(i); };
    if (executor.concurrency() == 1) {
        std::sort(first, at(size), less);
        return;
    }
    std::size_t ranges = 1;
    while (ranges < 4 * executor.concurrency() && size / ranges >= 2 * grain) ranges *= 2;
    const auto border = [&](std::size_t range) { return at(size / ranges * range + std::min(range, size % ranges)); };
    for (std::size_t width = ranges; width > 1; width /= 2)
        executor.run(ranges / width, [&](std::size_t i) {
            std::nth_element(border(i * width), border(i * width + width / 2), border((i + 1) * width), less);
        });
    executor.run(ranges, [&](std::size_t i) { std::sort(border(i), border(i + 1), less); });
}

} // namespace gneiss
