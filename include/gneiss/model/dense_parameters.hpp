// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/initialize.hpp>

namespace gneiss {

/// The parameters that every batch uses: weights and biases, in three contiguous arenas of values, gradients and
/// optimizer state. So reductions over replicas, checkpoints and optimizers work on plain spans.
///
///     dense_parameters<> weights;
///     const auto w = weights.add("w", 50, 128, initializer::glorot(50, 128));
///     weights.allocate(seed);
///     weights.value(w)                                    // matrix_view [50, 128]
///
/// Arrays begin at multiples of 64 bytes; padding stays 0. Not thread-safe while arrays are added; afterwards like the
/// memory it holds.
template <class T = float>
class dense_parameters {
public:
    /// One named matrix of an arena.
    struct array {
        std::string name;                  ///< name, unique in the arena
        std::size_t offset = 0;            ///< elements from the arena's start
        std::size_t rows = 0, columns = 0; ///< shape
        initializer first{};               ///< distribution of initial values
        T constant = 0;                    ///< added to every initial value
        bool decays = false;               ///< true if weight decay applies: to weights, not to biases and gains
        T scale = 1;                       ///< see `set_scale`

        [[nodiscard]] std::size_t size() const noexcept { return rows * columns; }
    };

    /// Adds a matrix of weights. Returns its number. Throws errc::invalid_argument after `allocate`.
    std::size_t add(std::string name, std::size_t rows, std::size_t columns, initializer first) {
        return append({std::move(name), 0, rows, columns, first, T{0}, true});
    }
    /// Adds a row of `size` equal initial values, exempt from decay: a bias or a gain. Throws as `add`.
    std::size_t add_constant(std::string name, std::size_t size, T value = 0) {
        return append({std::move(name), 0, 1, size, initializer::zeros(), value, false});
    }

    /// Allocates values and gradients; initial values are functions of the seed and an array's number. O(size).
    void allocate(std::uint64_t seed) {
        values_ = aligned_buffer<T, 64>::zeroed(size_);
        gradients_ = aligned_buffer<T, 64>::zeroed(size_);
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            const array& a = arrays_[i];
            std::vector<float> row(a.size());
            a.first.fill(seed, embedding_kind::dense, i, row);
            std::transform(row.begin(), row.end(), values_.data() + a.offset,
                [&](float x) { return static_cast<T>(x) + a.constant; });
        }
    }
    /// Allocates the optimizer's state: `per_value` elements for each value, all `first`.
    void allocate_state(std::size_t per_value, T first) {
        state_ = aligned_buffer<T, 64>(per_value * size_);
        std::fill(state_.begin(), state_.end(), first);
    }

    /// Trains array i as `scale` times another array, which is what `dense_optimizer` steps, decays and clips.
    /// Multiplies the values by the new scale over the old one. For weights of small inputs.
    /// Throws errc::invalid_argument unless the array exists, the values are allocated and the scale is positive.
    void set_scale(std::size_t i, T scale) {
        if (i >= arrays_.size() || !allocated())
            throw error(errc::invalid_argument, "a scale is set for an array that was not allocated");
        if (!(scale > 0))
            throw error(errc::invalid_argument, "the scale of array " + arrays_[i].name + " must be positive");
        for (T& x : values_.span().subspan(arrays_[i].offset, arrays_[i].size())) x *= scale / arrays_[i].scale;
        arrays_[i].scale = scale;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; } ///< elements of an arena
    /// True after `allocate`: the arenas of values and gradients have `size()` elements.
    [[nodiscard]] bool allocated() const noexcept { return values_.size() == size_; }
    /// Returns all arrays, by number.
    [[nodiscard]] const std::vector<array>& arrays() const noexcept { return arrays_; }
    /// Returns the arena of values.
    [[nodiscard]] std::span<T> values() noexcept { return values_.span(); }
    /// Returns the arena of values.
    [[nodiscard]] std::span<const T> values() const noexcept { return values_.span(); }
    /// Returns the arena of gradients.
    [[nodiscard]] std::span<T> gradients() noexcept { return gradients_.span(); }
    /// Returns the arena of gradients.
    [[nodiscard]] std::span<const T> gradients() const noexcept { return gradients_.span(); }
    /// Returns the optimizer's state.
    [[nodiscard]] std::span<T> state() noexcept { return state_.span(); }
    /// Returns the optimizer's state.
    [[nodiscard]] std::span<const T> state() const noexcept { return state_.span(); }
    /// Sets all gradients to 0.
    void zero_gradients() noexcept { std::fill(gradients_.begin(), gradients_.end(), T{0}); }
    [[nodiscard]] std::size_t size_bytes() const noexcept {
        return values_.capacity_bytes() + gradients_.capacity_bytes() + state_.capacity_bytes();
    }

    /// Returns the values of array i.
    [[nodiscard]] matrix_view<const T> value(std::size_t i) const noexcept {
        return {values_.data() + arrays_[i].offset, arrays_[i].rows, arrays_[i].columns};
    }
    /// Returns the gradients of array i.
    [[nodiscard]] matrix_view<T> gradient(std::size_t i) noexcept {
        return {gradients_.data() + arrays_[i].offset, arrays_[i].rows, arrays_[i].columns};
    }
    /// The same as lists, for biases and gains.
    [[nodiscard]] std::span<const T> list(std::size_t i) const noexcept {
        return {values_.data() + arrays_[i].offset, arrays_[i].size()};
    }
    /// Returns the gradients of array i as a list.
    [[nodiscard]] std::span<T> gradient_list(std::size_t i) noexcept {
        return {gradients_.data() + arrays_[i].offset, arrays_[i].size()};
    }

private:
    std::size_t append(array a) {
        if (!values_.empty())
            throw error(errc::invalid_argument, "array " + a.name + " is added after the weights were allocated");
        a.offset = size_;
        size_ = round_up(size_ + a.size(), 64 / sizeof(T));
        arrays_.push_back(std::move(a));
        return arrays_.size() - 1;
    }

    std::vector<array> arrays_;
    std::size_t size_ = 0;
    aligned_buffer<T, 64> values_, gradients_, state_;
};

} // namespace gneiss
