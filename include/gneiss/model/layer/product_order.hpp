// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include <gneiss/core/error.hpp>
#include <gneiss/model/input_columns.hpp>

namespace gneiss {

/// The order of a layer's product with W and its sums over neighbors. Results are equal up to rounding.
enum class product_order : std::uint8_t {
    cheaper, ///< by the sizes of the batch: fewer operations, where a value that is gathered counts as some
    first,   ///< A (x W): rows are multiplied, then summed; sparse rows always are
    last     ///< (A x) W: rows are summed, then multiplied
};

namespace detail {

/// Throws `invalid_argument` if sparse rows are to be multiplied last.
inline void check_order(product_order order, input_columns in) {
    if (order == product_order::last && in.sparse != 0)
        throw error(errc::invalid_argument, "sparse rows are multiplied first: leave out product=last");
}

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
