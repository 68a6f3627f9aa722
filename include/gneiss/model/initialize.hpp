// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/model/concepts.hpp>

namespace gneiss {

/// Table to fill: each has its own random numbers.
enum class embedding_kind : std::uint32_t { nodes = 0, relations = 1, dense = 2, user = 1024 };

/// Initial values of parameters: a distribution with two numbers.
///
/// A row is a pure function of (seed, table, row), independent of the order, the threads and the partitions: the key
/// absorbs the table and the row, and word ⌊column / 2⌋ gives the pair of columns. Thread-safe.
struct initializer {
    /// Shape of a distribution.
    enum class distribution : std::uint8_t { zeros, uniform, normal };

    distribution shape = distribution::zeros; ///< shape of the distribution
    float a = 0;                              ///< lower end, or mean
    float b = 0;                              ///< upper end, or standard deviation

    /// All values 0.
    static constexpr initializer zeros() noexcept { return {}; }
    /// Uniform in [low, high).
    static constexpr initializer uniform(float low, float high) noexcept { return {distribution::uniform, low, high}; }
    /// Normal with a mean and a standard deviation.
    static constexpr initializer normal(float mean, float deviation) noexcept {
        return {distribution::normal, mean, deviation};
    }
    /// Uniform within ±√(6 / (inputs + outputs)). Source: Glorot and Bengio, AISTATS 2010.
    static initializer glorot(std::size_t inputs, std::size_t outputs) noexcept {
        const auto bound = static_cast<float>(std::sqrt(6 / static_cast<double>(inputs + outputs)));
        return uniform(-bound, bound);
    }

    friend bool operator==(const initializer&, const initializer&) = default;

    /// Fills the values of one row. O(dim): one random word per two values, and for `normal` a logarithm, a root, a
    /// sine and a cosine. Does not throw.
    void fill(std::uint64_t seed, embedding_kind table, std::uint64_t row, std::span<float> values) const noexcept {
        const random_key key =
            random_key(seed, random_domain::initialize).with(static_cast<std::uint64_t>(table)).with(row);
        const std::size_t dim = values.size();
        for (std::size_t i = 0; i < dim; i += 2) {
            const auto [x, y] = pair(key[i / 2]);
            values[i] = x;
            if (i + 1 < dim) values[i + 1] = y;
        }
    }

private:
    struct two {
        float x, y;
    };
    [[nodiscard]] two pair(std::uint64_t word) const noexcept {
        const double high = static_cast<double>(word >> 32) * 0x1p-32,
                     low = static_cast<double>(word & 0xffffffffU) * 0x1p-32;
        if (shape == distribution::uniform) {
            const auto within = [this](double u) {
                return static_cast<float>(
                    static_cast<double>(a) + u * (static_cast<double>(b) - static_cast<double>(a)));
            };
            return {within(high), within(low)};
        }
        if (shape == distribution::normal) { // Box–Muller; 1 − u is in (0, 1]
            const double radius = static_cast<double>(b) * std::sqrt(-2 * std::log(1 - high));
            const double angle = 2 * std::numbers::pi * low;
            return {static_cast<float>(static_cast<double>(a) + radius * std::cos(angle)),
                static_cast<float>(static_cast<double>(a) + radius * std::sin(angle))};
        }
        return {0, 0};
    }
};

/// Fills rows [first, first + table.rows()) of a table: `dim` values, then the optimizer's initial state.
/// Precondition: dim ≤ table.columns(). Cost: O(table), in parallel; the values do not depend on the executor.
template <executor E>
void initialize_rows(const initializer& values, float state, std::uint64_t seed, embedding_kind which,
    std::uint64_t first, std::size_t dim, matrix_view<float> table, const E& executor) {
    parallel_for(executor, table.rows(), 1024, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
            const std::span<float> row = table[i];
            values.fill(seed, which, first + i, row.first(dim));
            std::fill(row.begin() + static_cast<std::ptrdiff_t>(dim), row.end(), state);
        }
    });
}

} // namespace gneiss
