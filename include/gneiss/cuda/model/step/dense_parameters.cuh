// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/model/dense_parameters.hpp>

namespace gneiss::cuda {

/// Values and gradients of an arena of parameters, as kernel arguments.
struct dense_weights {
    const float* values = nullptr; ///< first value
    float* gradients = nullptr;    ///< first gradient
};

/// One array of an arena, by its position, the same as in the host's arena.
struct weight_array {
    std::size_t offset = 0;    ///< floats from the start of the arena
    std::uint32_t columns = 0; ///< columns of the array

    /// Returns the array of that name and shape. Throws `invalid_argument` if `of` has none.
    [[nodiscard]] static weight_array find(
        const dense_parameters<float>& of, std::string_view name, std::size_t rows, std::size_t columns) {
        for (const auto& a : of.arrays())
            if (a.name == name && a.rows == rows && a.columns == columns)
                return {a.offset, static_cast<std::uint32_t>(columns)};
        throw error(errc::invalid_argument,
            "no parameters \"" + std::string(name) + "\" [" + std::to_string(rows) + ", " + std::to_string(columns) +
                "]");
    }
    /// Returns its rows from `first` on.
    [[nodiscard]] rows_view<const float> value(const dense_weights& of, std::size_t first = 0) const {
        return {of.values + offset + first * columns, columns, columns};
    }
    /// Returns the gradients, from row `first` on.
    [[nodiscard]] rows_view<float> gradient(const dense_weights& of, std::size_t first = 0) const {
        return {of.gradients + offset + first * columns, columns, columns};
    }
};

/// `gneiss::dense_parameters` on a device: values, gradients and optimizer state in device memory, with the same
/// offsets, so a copy of each arena converts to and from a checkpoint. Steps run on the device.
class device_parameters {
public:
    /// Allocates the arenas of `like`, with `state_per_value` floats of state per value. Throws `over_budget`.
    device_parameters(device_arena& memory, const dense_parameters<float>& like, std::size_t state_per_value)
        : size_(like.size()),
          state_size_(state_per_value * like.size()),
          values_(memory.take<float>(size_)),
          gradients_(memory.take<float>(size_)),
          state_(memory.take<float>(state_size_)),
          squares_(memory.take<double>(dense_step_scratch(size_))),
          decays_(ceil_div(size_, decay_unit)) {
        device_decays_ = memory.take<std::uint8_t>(decays_.size());
        for (const auto& a : like.arrays()) // arrays start at multiples of 64 bytes, so none shares a unit
            for (std::size_t i = a.offset; a.decays && i < a.offset + a.size(); i += decay_unit)
                decays_[i / decay_unit] = 1;
    }

    /// Copies values and state from the host, and zeroes the gradients, in `in`. `from` must not change until the
    /// stream has passed. Throws `invalid_argument` for other sizes, `device_error`.
    void upload(const dense_parameters<float>& from, cudaStream_t in) {
        check_sizes(from);
        copy_async(values(), from.values(), in);
        copy_async(state(), from.state(), in);
        copy_async(std::span(device_decays_, decays_.size()), std::span<const std::uint8_t>(decays_), in);
        fill_bytes_async(gradients(), 0, in);
    }
    /// Copies values and state to the host, in `in`; wait for the stream before reading them.
    void download(dense_parameters<float>& to, cudaStream_t in) const {
        check_sizes(to);
        copy_to_host_async(to.values(), std::span<const float>(values_, size_), in);
        copy_to_host_async(to.state(), std::span<const float>(state_, state_size_), in);
    }

    /// Takes one step by the gradients, then zeroes them, as `dense_optimizer::step`: *norm is their norm before
    /// clipping; if it is not finite, nothing is updated. `at` and `norm` are in device memory. Precondition: the state
    /// is that of `by`.
    /// Throws `invalid_argument` for an optimizer without a device implementation.
    void step(cudaStream_t in, const dense_optimizer& by, const step_state* at, gradient_norm* norm) {
        const dense_optimizer_options& settings = by.options();
        const dense_step_options options{settings.weight_decay, settings.decoupled, settings.clip_norm, device_decays_};
        with_device_optimizer(by, [&](const auto& rule) {
            step_dense(in, rule, at, options, size_, values_, gradients_, state_, squares_, norm);
        });
    }

    /// Returns values and gradients as kernel arguments.
    [[nodiscard]] dense_weights weights() const noexcept { return {values_, gradients_}; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; } ///< elements of an arena
    /// Returns all values, in device memory.
    [[nodiscard]] std::span<float> values() const noexcept { return {values_, size_}; }
    /// Returns all gradients, in device memory.
    [[nodiscard]] std::span<float> gradients() const noexcept { return {gradients_, size_}; }
    /// Returns the optimizer's state, in device memory.
    [[nodiscard]] std::span<float> state() const noexcept { return {state_, state_size_}; }

private:
    static constexpr std::size_t decay_unit = 16;

    void check_sizes(const dense_parameters<float>& other) const {
        if (other.size() != size_ || other.state().size() != state_size_)
            throw error(errc::invalid_argument, "parameters of another size, or without this optimizer's state");
    }

    std::size_t size_, state_size_;
    float *values_, *gradients_, *state_;
    double* squares_;
    std::vector<std::uint8_t> decays_; // a byte per unit: its values decay; kept for pending copies
    std::uint8_t* device_decays_ = nullptr;
};

} // namespace gneiss::cuda
