// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Index of a slot for one row in a cache.
using cache_slot = std::uint32_t;

/// Slot of a row that is not cached.
inline constexpr cache_slot no_slot = std::numeric_limits<cache_slot>::max();

/// Changes to a cache of rows after a batch was gathered. Plain data, to store, replay and compare.
///
/// in[i] takes the slot of out[i]; further rows of `in` take free slots, the lowest first, so the slots in use form a
/// prefix. in[i] is ids[in_position[i]] of the batch, so its row is already in memory and needs no read. No row is in
/// both lists; |out| ≤ |in|. Policies write `in` in the order of the batch.
/// Source: Ginex (VLDB'22), section 3.3, "Feature Cache Update": in_ids, out_ids, in_positions.
struct change_set {
    std::vector<node_id> in;                ///< rows admitted
    std::vector<node_id> out;               ///< rows evicted
    std::vector<std::uint32_t> in_position; ///< index of in[i] in the batch's ids

    /// Keeps the allocated memory.
    void clear() noexcept {
        in.clear();
        out.clear();
        in_position.clear();
    }
    /// True if no row enters or leaves.
    [[nodiscard]] bool empty() const noexcept { return in.empty() && out.empty(); }

    friend bool operator==(const change_set&, const change_set&) = default;
};

} // namespace gneiss
