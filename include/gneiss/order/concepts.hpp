// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <gneiss/order/plan.hpp>

namespace gneiss {

/// Order of edge buckets: plans what to train in an epoch before any data moves.
///
/// Meaning: `order(epoch)` is a plan that trains each of the partitions()² edge buckets once, in a state that holds
/// both its partitions, with at most resident_partitions() partitions resident. It is a pure function of the order and
/// the epoch: repeated calls, also on other machines, return the same plan, so a run can resume inside it.
/// Cost: O(p²) time and memory per epoch, up to logarithms. Thread-safe.
///
/// From examples/01_edge_bucket_order.cpp:
/// \snippet 01_edge_bucket_order.cpp orders
template <class O>
concept edge_bucket_order = requires(const O& order, std::uint64_t epoch) {
    { order(epoch) } -> std::same_as<epoch_plan>;
    { order.partitions() } -> std::convertible_to<std::uint32_t>;
    { order.resident_partitions() } -> std::convertible_to<std::uint32_t>;
};

} // namespace gneiss
