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
/// Meaning: before the first batch the cache holds `initial()`, at most slots() distinct rows, in slots 0, 1, …. `next(ids,
/// out)` is called once for every batch, in order, with its distinct ids, and writes into `out` what changes after that batch
/// was gathered; what `out` held is forgotten. The cache never holds more than slots() rows, and only rows of the batch go
/// in. A policy is a pure function of what it was made from and of the batches so far, so that a simulation of it on
/// integers (cache/simulate.hpp) tells hits and misses of the cache that moves rows.
/// Cost: `next` O(ids) amortized; nothing in the number of nodes or of slots.
/// Thread-safety: one batch at a time.
template <class P>
concept cache_policy =
    requires(P& policy, const P& as_is, std::span<const node_id> ids, change_set& out) {
        { as_is.capacity() } -> std::convertible_to<std::size_t>;
        { as_is.initial() } -> std::convertible_to<std::span<const node_id>>;
        policy.next(ids, out);
    };

/// Which rows the batches of a stretch of training ask for: known before the first of them is gathered.
///
/// Meaning: `size(i)` is the number of rows of batch i in [0, batches()), `read(i, room)` their distinct ids: in memory of
/// the trace, or put into `room`. They are valid until the trace or `room` is used again. Batches are read in falling or
/// rising order, each more than once.
/// Cost: `size` O(1) without I/O, `read` O(size(i)).
template <class T>
concept access_trace = requires(T& trace, std::size_t batch, std::vector<node_id>& room) {
    { trace.batches() } -> std::convertible_to<std::size_t>;
    { trace.size(batch) } -> std::convertible_to<std::size_t>;
    { trace.read(batch, room) } -> std::convertible_to<std::span<const node_id>>;
};

/// Change sets of consecutive batches, read one after the other: `next(out)` gives that of the next batch, all of whose lists
/// but `in` are set, and false behind the last.
template <class S>
concept change_set_source = requires(S& source, change_set& out) {
    { source.next(out) } -> std::convertible_to<bool>;
};

} // namespace gneiss
