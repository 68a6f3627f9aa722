// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include <gneiss/cache/change_set.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss {

/// Decides which rows a cache holds.
///
/// Meaning: before the first batch the cache holds `initial()`, at most capacity() distinct rows, in slots 0, 1, ….
/// `next(ids, out)` is called once per batch, in order, with its distinct ids, and replaces `out` with the changes
/// after that batch was gathered. The cache never holds more than capacity() rows, and only rows of the batch are
/// admitted. A policy is a pure function of its construction arguments and the batches so far, so a simulation on
/// integers (cache/simulate.hpp) predicts hits and misses exactly.
/// Cost: `next` O(ids) amortized, independent of the number of nodes and slots.
/// Thread-safety: one batch at a time.
///
/// From examples/23_own_cache_policy.cpp:
/// \snippet 23_own_cache_policy.cpp policy
template <class P>
concept cache_policy = requires(P& policy, const P& as_is, std::span<const node_id> ids, change_set& out) {
    { as_is.capacity() } -> std::convertible_to<std::size_t>;
    { as_is.initial() } -> std::convertible_to<std::span<const node_id>>;
    policy.next(ids, out);
};

/// Requested rows of the batches of a stretch of training, known before the first batch is gathered.
///
/// Meaning: `size(i)` is the number of rows of batch i in [0, batches()). `read(i, room)` returns their distinct ids,
/// in memory of the trace or in `room`, valid until the trace or `room` is used again. Batches are read in descending
/// or ascending order, each more than once.
/// Cost: `size` O(1) without I/O, `read` O(size(i)).
template <class T>
concept access_trace = requires(T& trace, std::size_t batch, std::vector<node_id>& room) {
    { trace.batches() } -> std::convertible_to<std::size_t>;
    { trace.size(batch) } -> std::convertible_to<std::size_t>;
    { trace.read(batch, room) } -> std::convertible_to<std::span<const node_id>>;
};

/// Reads change sets of consecutive batches: `next(out)` reads the next one, all lists except `in`, and returns false
/// at the end.
/// Cost: O(changes), a sequential read if on disk, into memory of `out`. One thread at a time. Errors: those of
/// reading, and errc::corrupt for a damaged file.
template <class S>
concept change_set_source = requires(S& source, change_set& out) {
    { source.next(out) } -> std::convertible_to<bool>;
};

} // namespace gneiss
