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

/// The values and gradients of an arena of parameters, as kernels are given them.
struct dense_weights {
    const float* values = nullptr;
    float* gradients = nullptr;
};

/// One array of an arena, by its place there: that of the host's arena.
struct weight_array {
    std::size_t offset = 0;
    std::uint32_t columns = 0;

    /// Of that name and shape. Throws `invalid_argument` where `of` has none.
    [[nodiscard]] static weight_array find(const dense_parameters<float>& of, std::string_view name, std::size_t rows, std::size_t columns) {
        for (const auto& a : of.arrays())
            if (a.name == name && a.rows == rows && a.columns == columns) return {a.offset, static_cast<std::uint32_t>(columns)};
        throw error(errc::invalid_argument,
            "no parameters \"" + std::string(name) + "\" [" + std::to_string(rows) + ", " + std::to_string(columns) + "]");
    }
    /// Its rows from `first` on.
    [[nodiscard]] rows_view<const float> value(const dense_weights& of, std::size_t first = 0) const {
        return {of.values + offset + first * columns, columns, columns};
    }
    [[nodiscard]] rows_view<float> gradient(const dense_weights& of, std::size_t first = 0) const {
        return {of.gradients + offset + first * columns, columns, columns};
    }
};

/// What `gneiss::dense_parameters` are on the host: values, gradients and optimizer state in device memory, with the same
/// offsets, so that a copy of each arena is all that lies between them and a checkpoint. They are stepped there.
class device_parameters {
public:
    /// Room for the arenas of `like`, with `state_per_value` floats of state for each value. Throws `over_budget`.
    device_parameters(device_arena& memory, const dense_parameters<float>& like, std::size_t state_per_value)
        : size_(like.size()), state_size_(state_per_value * like.size()), values_(memory.take<float>(size_)),
          gradients_(memory.take<float>(size_)), state_(memory.take<float>(state_size_)), squares_(memory.take<double>(dense_step_scratch(size_))),
          decays_(ceil_div(size_, decay_unit)) {
        device_decays_ = memory.take<std::uint8_t>(decays_.size());
        for (const auto& a : like.arrays()) // arrays begin at multiples of 64 bytes, so that none shares a unit
            for (std::size_t i = a.offset; a.decays && i < a.offset + a.size(); i += decay_unit) decays_[i / decay_unit] = 1;
    }

    /// Copies values and state from the host, and zeroes the gradients, in `in`. `from` must stay as it is until the stream has
    /// passed. Throws `invalid_argument` for other sizes, `device_error`.
    void upload(const dense_parameters<float>& from, cudaStream_t in) {
        check_sizes(from);
        copy_async(values(), from.values(), in);
        copy_async(state(), from.state(), in);
        copy_async(std::span(device_decays_, decays_.size()), std::span<const std::uint8_t>(decays_), in);
        fill_bytes_async(gradients(), 0, in);
    }
    /// Copies values and state to the host, in `in`, which must be waited for.
    void download(dense_parameters<float>& to, cudaStream_t in) const {
        check_sizes(to);
        copy_async(to.values(), std::span<const float>(values_, size_), in);
        copy_async(to.state(), std::span<const float>(state_, state_size_), in);
    }

    /// One step by the gradients, which are then zeroed, as `dense_optimizer::step`: *norm is theirs before clipping, and where it is
    /// not finite nothing is stepped. `at` and `norm` lie in device memory. Precondition: the state is that of `by`. Throws
    /// `invalid_argument` for a rule that devices do not step by.
    void step(cudaStream_t in, const dense_optimizer& by, const step_state* at, gradient_norm* norm) {
        const dense_optimizer_options& settings = by.options();
        const dense_step_options options{settings.weight_decay, settings.decoupled, settings.clip_norm, device_decays_};
        with_device_optimizer(by, [&](const auto& rule) {
            step_dense(in, rule, at, options, size_, values_, gradients_, state_, squares_, norm);
        });
    }

    [[nodiscard]] dense_weights weights() const noexcept { return {values_, gradients_}; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; } ///< elements of an arena
    [[nodiscard]] std::span<float> values() const noexcept { return {values_, size_}; }
    [[nodiscard]] std::span<float> gradients() const noexcept { return {gradients_, size_}; }
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
    std::vector<std::uint8_t> decays_; // whether values decay, a byte for each unit; stays for copies under way
    std::uint8_t* device_decays_ = nullptr;
};

} // namespace gneiss::cuda
