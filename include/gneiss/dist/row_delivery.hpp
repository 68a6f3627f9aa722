// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gneiss/cache/change_set.hpp>

namespace gneiss {

/// A row that enters a slot of the cache.
struct entering_row {
    std::uint32_t position = 0; ///< among the distinct rows of the group
    cache_slot slot = 0;

    friend bool operator==(const entering_row&, const entering_row&) = default;
};

/// Delivery of the rows of a group of batches to a compute worker that has a cache. Plain data that both sides apply:
/// the batch worker leaves out the rows that are in slots, and the compute worker takes them from there. So making a
/// group again leaves out the same rows.
struct row_delivery {
    std::uint64_t sequence = 0;      ///< number of the group since the cache was empty
    std::vector<cache_slot> from;    ///< [distinct rows] slot of each, or `no_slot`: it is sent, in this order
    std::vector<entering_row> enter; ///< after the group, in this order: the last row that enters a slot stays

    /// Returns the number of rows that are sent.
    [[nodiscard]] std::size_t sent() const { return static_cast<std::size_t>(std::ranges::count(from, no_slot)); }
    friend bool operator==(const row_delivery&, const row_delivery&) = default;
};

} // namespace gneiss
