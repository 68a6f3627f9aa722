// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/model/embedding_table.hpp>

namespace gneiss {

/// Memory for the rows of a batch, while it has rows.
struct row_memory {
    reusable_buffer<float> rows, gradients, relations; ///< memory of each array
    std::uint64_t counted = 0;                         ///< by the `row_room` [bytes]
    bool alone = false;                                ///< no other batch has rows meanwhile
};

/// Upper bounds of a batch [bytes].
struct batch_memory {
    std::uint64_t sample = 0; ///< for each batch in flight: its edges or nodes, neighbors, layers
    std::uint64_t rows = 0;   ///< for each batch whose rows are in memory: between gather and update

    /// Returns the bound of the whole batch.
    [[nodiscard]] constexpr std::uint64_t bytes() const noexcept { return sample + rows; }
};

} // namespace gneiss
