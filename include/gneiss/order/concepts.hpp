// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <gneiss/order/plan.hpp>

namespace gneiss {

/// An order of edge buckets: says what to train, epoch by epoch, before a byte moves.
///
/// Meaning: `order(epoch)` is a plan in which each of the partitions()² edge buckets is trained once, in a state that
/// holds both its partitions, of which at most slots() are resident. It is a pure function of the order and the epoch:
/// asking twice, or on another machine, gives the same plan, so that a run can resume inside it.
/// Cost: O(p²) time and memory per epoch, up to logarithms. Thread-safe.
template <class O>
concept edge_bucket_order = requires(const O& order, std::uint64_t epoch) {
    { order(epoch) } -> std::same_as<epoch_plan>;
    { order.partitions() } -> std::convertible_to<std::uint32_t>;
    { order.resident_partitions() } -> std::convertible_to<std::uint32_t>;
};

} // namespace gneiss
