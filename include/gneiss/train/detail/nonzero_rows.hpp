// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/model/embedding_table.hpp>

namespace gneiss::detail {

/// Moves the rows of `sums` [rows, dim] that are not zero to `to`, and zeroes the sums. O(rows · dim).
inline void take_nonzero_rows(std::span<float> sums, std::size_t dim, sparse_gradients& to) {
    const auto row = [&](std::size_t r) { return sums.subspan(r * dim, dim); };
    const auto zero = [&](std::size_t r) { return std::ranges::all_of(row(r), [](float g) { return g == 0; }); };
    const std::size_t rows = dim == 0 ? 0 : sums.size() / dim;
    std::size_t count = 0;
    for (std::size_t r = 0; r < rows; ++r) count += zero(r) ? 0U : 1U;
    to.resize(count, dim);
    for (std::size_t r = 0, i = 0; r < rows; ++r) {
        if (zero(r)) continue;
        to.ids()[i] = static_cast<std::uint32_t>(r);
        std::ranges::copy(row(r), to.rows()[i++].begin());
    }
    std::ranges::fill(sums, 0.0F);
}

} // namespace gneiss::detail
