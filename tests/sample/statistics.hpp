#pragma once

#include <cmath>
#include <cstddef>

namespace gneiss::test {

/// Returns the bound that a chi-square statistic of `degrees` degrees of freedom exceeds about once in 10⁵ times.
/// Source: Wilson and Hilferty, 1931.
inline double chi_square_bound(std::size_t degrees) {
    const double d = static_cast<double>(degrees), c = 2 / (9 * d), z = 4.27;
    return d * std::pow(1 - c + z * std::sqrt(c), 3);
}

} // namespace gneiss::test
