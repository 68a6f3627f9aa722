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
    std::span<const layer_view> views{};
    encoder_input<T> input{};
    encoder_pass pass{};                ///< without `training`: evaluation
    const class_id* labels = nullptr;   ///< [targets of the last hop], or `unlabeled`
    const step_state* at = nullptr;     ///< number of the step from 1, factor of the rate
    rows_view<T> grad_in{};             ///< [rows, dense columns] where rows are learned
};

/// What a step leaves in device memory, to be read when the stream has passed it.
struct classifier_outcome {
    classification_outcome classes{};
    gradient_norm norm{}; ///< before clipping

    /// The statistics; throws what the host's step throws: `out_of_range` for a label that is no class, `not_finite` for a loss or
    /// a gradient that is no number. Nothing was stepped then.
    [[nodiscard]] classification_statistics checked() const {
        if (classes.invalid != 0) throw error(errc::out_of_range, std::to_string(classes.invalid) + " labels of a batch are no classes");
        if (!std::isfinite(classes.statistics.loss)) throw error(errc::not_finite, "the loss of the classes is not a finite number");
        if (!std::isfinite(norm.value)) throw error(errc::not_finite, "a gradient is not a finite number");
        return classes.statistics;
    }
};

namespace detail {

/// One thread. After a label or a loss that is wrong a gradient becomes no number, so that nothing is stepped.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) spoil_gradient(const classification_outcome* classes, float* gradient) {
    const double loss = classes->statistics.loss;
    if (classes->invalid != 0 || !(loss < __builtin_inf())) *gradient = __builtin_nanf("");
}

} // namespace detail

/// Trains the weights of a classifier of nodes on a device, as `gneiss::classifier_step` does on the host: forward, softmax
/// cross-entropy, backward, a step of the weights. Weights, gradients and the optimizer's state live in device memory.
///
///     classifier_step<float> train(arena, weights, layers, columns, capacity, optimizer);
///     train.parameters().upload(weights, stream);
///     const auto step = graph::record(stream, [&] { train.step(stream, batch, outcome); });   // or without a graph
///     … copy a batch and its counts, key and number into the memory that `batch` names …
///     step.launch(stream);
///
/// Asynchronous, allocates nothing; memory is that of the arena. One batch at a time.
template <storage T>
class classifier_step {
public:
    /// `weights` has the arrays that the host's encoder of these layers and columns adds. Throws as `encoder`, and `invalid_argument` for a rule
    /// that devices do not step by.
    classifier_step(device_arena& memory, const dense_parameters<float>& weights, std::vector<layer_options> layers, input_columns in,
        encoder_capacity most, const dense_optimizer& optimizer)
        : encode_(memory, weights, std::move(layers), in, std::move(most)), parameters_(memory, weights, optimizer.state_per_value()),
          optimizer_(optimizer), targets_(encode_.most_targets()), losses_(memory.take<float>(targets_)),
          correct_(memory.take<std::uint8_t>(targets_)) {
        check_steps_on_device(optimizer_);
        const std::size_t stride = round_up(encode_.outputs(), 16 / sizeof(T));
        if (encode_.keeps_output()) gradient_ = {memory.take<T>(targets_ * stride), encode_.outputs(), stride};
    }

    [[nodiscard]] encoder<T>& encode() noexcept { return encode_; }
    [[nodiscard]] device_parameters& parameters() noexcept { return parameters_; }
    /// Steps so from now on; what was recorded keeps to the former one. The state floats must be the same.
    void set_optimizer(const dense_optimizer& optimizer) {
        check_steps_on_device(optimizer);
        optimizer_ = optimizer;
    }

    /// One batch: *out tells its loss and what was right.
    void step(cudaStream_t stream, const classifier_batch<T>& batch, classifier_outcome* out) {
        const dense_weights weights = parameters_.weights();
        const rows_view<T> gradient = score(stream, batch, out);
        encode_.backward(stream, weights, gradient, batch.grad_in);
        launch(stream, detail::spoil_gradient<1>, 1, 1, 0, &out->classes, weights.gradients);
        parameters_.step(stream, optimizer_, batch.at, &out->norm);
    }
    /// Loss and what was right alone, without a step; *out says nothing of gradients.
    void evaluate(cudaStream_t stream, const classifier_batch<T>& batch, classifier_outcome* out) {
        static_cast<void>(score(stream, batch, out));
    }

private:
    /// The scores' gradient.
    [[nodiscard]] rows_view<T> score(cudaStream_t stream, const classifier_batch<T>& batch, classifier_outcome* out) {
        rows_view<T> scores = encode_.forward(stream, parameters_.weights(), batch.views, batch.input, batch.pass);
        const row_range targets = encode_.targets();
        if (gradient_.data != nullptr) {
            gather_rows<T>(stream, targets, nullptr, scores, gradient_);
            scores = gradient_;
        }
        softmax_cross_entropy<T>(stream, targets.count, targets.capacity, scores, batch.labels, losses_, correct_, &out->classes);
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
