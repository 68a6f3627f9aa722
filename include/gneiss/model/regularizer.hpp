// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/vector_math.hpp>

namespace gneiss {

/// Kind of penalty.
enum class norm_penalty : std::uint8_t {
    none,
    l2, ///< Σ xᵢ²
    n3  ///< Σ |xᵢ|³, over moduli if rows are complex. Source: Lacroix, Usunier and Obozinski, ICML 2018
};

/// A penalty on the rows of the positives: head, relation and tail of every edge, once per edge for any number of
/// sides. With reciprocal relations both relation rows of an edge count.
struct regularizer {
    norm_penalty penalty = norm_penalty::none; ///< kind of penalty
    double weight = 0;                         ///< λ

    /// True if there is a penalty.
    [[nodiscard]] bool active() const noexcept { return penalty != norm_penalty::none && weight != 0; }

    /// Adds factor · λ · ∂penalty(row)/∂row to `gradient` and returns factor · λ · penalty(row). O(dim).
    template <class T>
    double add_gradient(vector_in<T> row, bool complex_rows, double factor, std::span<T> gradient) const noexcept {
        if (!active()) return 0;
        const double scale = factor * weight;
        const T* x = row.data();
        T* out = gradient.data();
        if (penalty == norm_penalty::l2) {
            const T twice = static_cast<T>(2 * scale);
            for (std::size_t i = 0; i < row.size(); ++i) out[i] += twice * x[i];
            return scale * static_cast<double>(detail::dot(x, x, row.size()));
        }
        const T thrice = static_cast<T>(3 * scale);
        if (complex_rows) {
            const std::size_t half = row.size() / 2;
            const auto modulus = [x, half](std::size_t i) {
                return detail::square_root(x[i] * x[i] + x[half + i] * x[half + i]);
            };
            for (std::size_t i = 0; i < half; ++i) {
                const T by = thrice * modulus(i);
                out[i] += by * x[i];
                out[half + i] += by * x[half + i];
            }
            return scale * static_cast<double>(detail::lane_sum<T>(half, [modulus](std::size_t i) {
                const T m = modulus(i);
                return m * m * m;
            }));
        }
        const auto magnitude = [x](std::size_t i) { return x[i] < T{0} ? -x[i] : x[i]; };
        for (std::size_t i = 0; i < row.size(); ++i) out[i] += thrice * magnitude(i) * x[i];
        return scale * static_cast<double>(detail::lane_sum<T>(row.size(), [x, magnitude](std::size_t i) {
            return x[i] * x[i] * magnitude(i);
        }));
    }
};

} // namespace gneiss
