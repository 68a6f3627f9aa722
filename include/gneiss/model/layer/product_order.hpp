// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace gneiss {

/// The order of a layer's product with W and its sums over neighbors. Results are equal up to rounding.
enum class product_order : std::uint8_t {
    cheaper, ///< by the sizes of the batch: fewer operations, where a value that is gathered counts as some
    first,   ///< A (x W): rows are multiplied, then summed; sparse rows always are
    last     ///< (A x) W: rows are summed, then multiplied
};

namespace detail {

/// Returns true if A (x W) takes fewer operations than (A x) W, for `in` columns that W maps to `out`. A gathered value
/// counts as `operations_per_gathered_value` operations.
[[nodiscard]] constexpr bool projecting_is_cheaper(std::size_t in, std::size_t out, std::size_t sources,
    std::size_t targets, std::size_t edges, double operations_per_gathered_value) noexcept {
    const double gathered = static_cast<double>(edges) * operations_per_gathered_value;
    const double before = static_cast<double>(in), after = static_cast<double>(out);
    return gathered * after + 2 * before * after * static_cast<double>(sources) <
        gathered * before + 2 * before * after * static_cast<double>(targets);
}

} // namespace detail
} // namespace gneiss
