// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace gneiss {

/// Numbers of input columns of a layer.
struct input_columns {
    std::size_t dense = 0;  ///< dense columns
    std::size_t sparse = 0; ///< sparse columns

    /// Returns the number of all columns.
    [[nodiscard]] std::size_t total() const noexcept { return dense + sparse; }
};

} // namespace gneiss
