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

    friend bool operator==(const sparse_feature_rows&, const sparse_feature_rows&) = default;
};

} // namespace gneiss
