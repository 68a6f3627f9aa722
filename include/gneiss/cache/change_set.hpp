// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// A place for one row in a cache.
using cache_slot = std::uint32_t;

/// The slot of a row that is in none.
inline constexpr cache_slot no_slot = std::numeric_limits<cache_slot>::max();

/// What changes in a cache of rows after a batch was gathered: plain data, to be stored, replayed and compared.
///
/// in[i] takes the slot of out[i]; the rows of `in` beyond those take free slots, the lowest first. So the slots in use are
/// always the first ones. in[i] is ids[in_position[i]] of the batch, hence its row is at hand when it goes in: nothing is
/// read for it. No row is in both lists; |out| ≤ |in|. Policies write `in` in the order of the batch.
/// Source: Ginex (VLDB'22), section 3.3, "Feature Cache Update": in_ids, out_ids, in_positions.
struct change_set {
    std::vector<node_id> in;                ///< rows that go in
    std::vector<node_id> out;               ///< rows that leave
    std::vector<std::uint32_t> in_position; ///< where in[i] stands among the batch's ids

    /// Keeps the memory.
    void clear() noexcept {
        in.clear();
        out.clear();
        in_position.clear();
    }
    [[nodiscard]] bool empty() const noexcept { return in.empty() && out.empty(); }

    friend bool operator==(const change_set&, const change_set&) = default;
};

} // namespace gneiss
