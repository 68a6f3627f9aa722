// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace gneiss {

/// Features of some rows as compressed sparse rows.
struct sparse_feature_rows {
    std::vector<std::uint64_t> offsets; ///< [rows + 1], from 0
    std::vector<std::uint32_t> columns; ///< [entries], ascending within a row
    std::vector<float> values;          ///< [entries], or empty: all are 1

    /// Returns the bytes of the arrays.
    [[nodiscard]] std::uint64_t bytes() const noexcept {
        return offsets.size() * sizeof(std::uint64_t) + columns.size() * sizeof(std::uint32_t) +
            values.size() * sizeof(float);
    }

    friend bool operator==(const sparse_feature_rows&, const sparse_feature_rows&) = default;
};

} // namespace gneiss
