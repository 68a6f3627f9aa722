// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/model/device/classify.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/model/step/dense_parameters.cuh>
#include <gneiss/cuda/model/step/encoder.cuh>
#include <gneiss/model/dense_optimizer.hpp>

namespace gneiss::cuda {

/// A batch of a classifier, in device memory.
template <storage T>
struct classifier_batch {
    std::span<const layer_view> views{}; ///< layers of the sample
    encoder_input<T> input{};            ///< input rows
    encoder_pass pass{};                 ///< without `training`: evaluation
    const class_id* labels = nullptr;    ///< [targets of the last hop], or `unlabeled`
    const step_state* at = nullptr;      ///< step number from 1, factor of the rate
    rows_view<T> grad_in{};              ///< [rows, dense columns] if rows are learned
};

/// Results of a step in device memory, to be read after the stream has passed it.
struct classifier_outcome {
    classification_outcome classes{}; ///< loss and accuracy
    gradient_norm norm{};             ///< before clipping

    /// Returns the statistics; throws the host step's errors: `out_of_range` for an invalid label, `not_finite` for a
    /// loss or gradient that is not finite. Nothing was updated then.
    [[nodiscard]] classification_statistics checked() const {
        if (classes.invalid != 0)
            throw error(errc::out_of_range, std::to_string(classes.invalid) + " labels of a batch are out of range");
        if (!std::isfinite(classes.statistics.loss))
            throw error(errc::not_finite, "the loss of the classes is not a finite number");
        if (!std::isfinite(norm.value)) throw error(errc::not_finite, "a gradient is not a finite number");
        return classes.statistics;
    }
};

namespace detail {

/// Makes a gradient NaN after an invalid label or loss, so that nothing is updated; one thread.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) spoil_gradient(const classification_outcome* classes, float* gradient) {
    const double loss = classes->statistics.loss;
    if (classes->invalid != 0 || !(loss < __builtin_inf())) *gradient = __builtin_nanf("");
}

} // namespace detail

/// Trains the weights of a node classifier on a device, as `gneiss::classifier_step` does on the host: forward, softmax
/// cross-entropy, backward, a step of the weights. Weights, gradients and optimizer state are in device memory.
///
///     classifier_step<float> train(arena, weights, layers, columns, capacity, optimizer);
///     train.parameters().upload(weights, stream);
///     const auto step = graph::record(stream, [&] { train.step(stream, batch, outcome); });   // or without a graph
///     … copy a batch and its counts, key and number into the memory that `batch` names …
///     step.launch(stream);
///
/// Asynchronous, allocates nothing; memory comes from the arena. One batch at a time.
template <storage T>
class classifier_step {
public:
    /// `weights` has the arrays that the host's encoder of these layers and columns adds. Throws as `encoder`, and
    /// `invalid_argument` for an optimizer without a device implementation.
    classifier_step(device_arena& memory, const dense_parameters<float>& weights, std::vector<layer_options> layers,
        input_columns in, encoder_capacity most, const dense_optimizer& optimizer)
        : encode_(memory, weights, std::move(layers), in, std::move(most)),
          parameters_(memory, weights, optimizer.state_per_value()),
          optimizer_(optimizer),
          targets_(encode_.most_targets()),
          losses_(memory.take<float>(targets_)),
          correct_(memory.take<std::uint8_t>(targets_)) {
        check_steps_on_device(optimizer_);
        const std::size_t stride = round_up(encode_.outputs(), 16 / sizeof(T));
        if (encode_.keeps_output()) gradient_ = {memory.take<T>(targets_ * stride), encode_.outputs(), stride};
    }

    /// Returns the encoder.
    [[nodiscard]] encoder<T>& encode() noexcept { return encode_; }
    /// Returns the parameters on the device.
    [[nodiscard]] device_parameters& parameters() noexcept { return parameters_; }
    /// Sets the optimizer for later steps; recorded steps keep the previous one. The number of state floats must be the
    /// same.
    void set_optimizer(const dense_optimizer& optimizer) {
        check_steps_on_device(optimizer);
        optimizer_ = optimizer;
    }

    /// Trains one batch: *out has its loss and hits.
    void step(cudaStream_t stream, const classifier_batch<T>& batch, classifier_outcome* out) {
        const dense_weights weights = parameters_.weights();
        const rows_view<T> gradient = score(stream, batch, out);
        encode_.backward(stream, weights, gradient, batch.grad_in);
        launch(stream, detail::spoil_gradient<1>, 1, 1, 0, &out->classes, weights.gradients);
        parameters_.step(stream, optimizer_, batch.at, &out->norm);
    }
    /// Computes only loss and hits, without a step; *out has no gradients.
    void evaluate(cudaStream_t stream, const classifier_batch<T>& batch, classifier_outcome* out) {
        static_cast<void>(score(stream, batch, out));
    }

private:
    /// Computes the gradient of the scores.
    [[nodiscard]] rows_view<T> score(cudaStream_t stream, const classifier_batch<T>& batch, classifier_outcome* out) {
        rows_view<T> scores = encode_.forward(stream, parameters_.weights(), batch.views, batch.input, batch.pass);
        const row_range targets = encode_.targets();
        if (gradient_.data != nullptr) {
            gather_rows<T>(stream, targets, nullptr, scores, gradient_);
            scores = gradient_;
        }
        softmax_cross_entropy<T>(
            stream, targets.count, targets.capacity, scores, batch.labels, losses_, correct_, &out->classes);
        return scores;
    }

    encoder<T> encode_;
    device_parameters parameters_;
    dense_optimizer optimizer_;
    std::uint32_t targets_;
    float* losses_;
    std::uint8_t* correct_;
    rows_view<T> gradient_{};
};

} // namespace gneiss::cuda
