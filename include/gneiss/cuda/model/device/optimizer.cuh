// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include <gneiss/core/error.hpp>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/device/partial_sums.cuh>
#include <gneiss/model/optimizer.hpp>

// Steps of the host's optimizers `sgd`, `adagrad` and `adam`, with the same arithmetic per value.
namespace gneiss::cuda {

/// An optimizer with a device implementation.
template <class O>
concept device_optimizer = std::same_as<O, sgd> || std::same_as<O, adagrad> || std::same_as<O, adam>;

/// Calls f(optimizer) with the type inside an `any_row_optimizer` or a `dense_optimizer`. Throws `invalid_argument` if
/// it has no device implementation.
template <class Erased, class F>
void with_device_optimizer(const Erased& optimizer, F&& f) {
    if (const auto* const o = optimizer.template get_if<sgd>()) return f(*o);
    if (const auto* const o = optimizer.template get_if<adagrad>()) return f(*o);
    if (const auto* const o = optimizer.template get_if<adam>()) return f(*o);
    throw error(
        errc::invalid_argument, "a device steps by sgd, adagrad or adam: an optimizer of your own trains on the CPU");
}
/// Throws as `with_device_optimizer`.
template <class Erased>
void check_steps_on_device(const Erased& optimizer) {
    with_device_optimizer(optimizer, [](const auto&) {});
}

/// True if both have the same device implementation with the same settings.
template <class Erased>
[[nodiscard]] bool step_alike(const Erased& a, const Erased& b) {
    bool alike = false;
    with_device_optimizer(a, [&]<class O>(const O& one) {
        const O* const other = b.template get_if<O>();
        alike = other != nullptr && std::memcmp(&one, other, sizeof(O)) == 0; // floats without padding
    });
    if constexpr (requires { a.options(); })
        alike = alike && a.options().weight_decay == b.options().weight_decay &&
            a.options().decoupled == b.options().decoupled && a.options().clip_norm == b.options().clip_norm;
    return alike;
}

namespace detail {

/// Returns an optimizer with that rule and the other's options.
template <class Erased, class Rule>
[[nodiscard]] Erased with_rule(const Erased& like, const Rule& rule) {
    if constexpr (requires { like.options(); })
        return Erased(rule, like.options());
    else
        return Erased(rule);
}

} // namespace detail

/// Returns the optimizer at a rate of 1, and its rate. A step that gets this rate as its factor has the bits of a step
/// by the optimizer, but a kernel's arguments no longer depend on the rate. Throws as `with_device_optimizer`.
template <class Erased>
[[nodiscard]] std::pair<Erased, double> apart_from_rate(const Erased& optimizer) {
    std::optional<std::pair<Erased, double>> result;
    with_device_optimizer(optimizer, [&](auto rule) {
        const double rate = rule.rate;
        rule.rate = 1;
        result.emplace(detail::with_rule(optimizer, rule), rate);
    });
    return *std::move(result);
}

/// Values that change per step, in device memory.
struct step_state {
    static constexpr std::uint64_t none = 0; ///< number of no step

    std::uint64_t t = 1; ///< number of the step, from 1; `none`: nothing is updated
    double factor = 1;   ///< factor of the optimizer's rate, such as a schedule's
};

/// Norm of the gradients before clipping, in device memory. If it is not finite, nothing was updated.
struct gradient_norm {
    double value = 0; ///< norm of all gradients
};

namespace detail {

/// An optimizer with the rate of a step, per thread.
template <class O>
class stepper {
    static_assert(
        device_optimizer<O>, "a device steps by sgd, adagrad or adam: an optimizer of your own trains on the CPU");

public:
    static constexpr int states = static_cast<int>(O::state_floats(1));

    /// All threads of the block call: one of them computes the shared values.
    __device__ stepper(O optimizer, const step_state* at) : by_(optimizer), steps_(at->t != step_state::none) {
        by_.rate = static_cast<float>(static_cast<double>(by_.rate) * at->factor);
        if constexpr (std::is_same_v<O, adam>) {
            __shared__ adam::moments inverse;
            if (threadIdx.x == 0) inverse = by_.correction(steps_ ? at->t : 1);
            __syncthreads();
            inverse_ = inverse;
        }
    }
    /// False if nothing is updated.
    [[nodiscard]] __device__ bool steps() const noexcept { return steps_; }
    [[nodiscard]] __device__ float rate() const noexcept { return by_.rate; }
    /// Updates a value whose k-th state is state[k].
    __device__ void operator()(float& value, float* const (&state)[2], float gradient) const {
        if constexpr (states == 0)
            by_.step_one(value, gradient);
        else if constexpr (states == 1)
            by_.step_one(value, *state[0], gradient);
        else
            by_.step_one(value, *state[0], *state[1], gradient, inverse_);
    }

private:
    O by_;
    bool steps_;
    adam::moments inverse_{};
};

template <bool Out, class Slice>
__device__ inline void move_one(const Slice& slice, unsigned k, float* row, float& x) {
    if (slice.column(k) >= slice.all) return;
    if constexpr (Out)
        write(row + slice.column(k), x);
    else
        x = reread(row + slice.column(k));
}
/// Moves values part … part + 3 of a slice's columns of a row of floats into registers or back.
template <bool Aligned, bool Out, class Slice>
__device__ inline void move(const Slice& slice, unsigned part, float* row, float (&x)[4]) {
    if constexpr (Aligned) {
        if (slice.column(part) + 4 > slice.all) {
            GNEISS_UNROLL
            for (unsigned k = 0; k < 4; ++k) move_one<Out>(slice, part + k, row, x[k]);
        } else if constexpr (Out) {
            __stwb(reinterpret_cast<float4*>(row + slice.column(part)), make_float4(x[0], x[1], x[2], x[3]));
        } else {
            const float4 four = __ldcg(reinterpret_cast<const float4*>(row + slice.column(part)));
            x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
        }
    } else {
        GNEISS_UNROLL
        for (unsigned k = 0; k < 4; ++k) move_one<Out>(slice, part + k, row, x[k]);
    }
}

/// One warp per row.
template <class O, storage T, bool Aligned>
__global__ void __launch_bounds__(256) step_rows(O optimizer, const step_state* at, const std::uint32_t* count,
    const std::uint32_t* ids, const std::uint32_t* first_id, rows_view<const T> gradients, rows_view<float> table) {
    using gradient_slice = row_slice<T, warp_lanes, Aligned>;
    constexpr int states = stepper<O>::states;
    const stepper<O> step(optimizer, at);
    const std::uint32_t i = grid_warp();
    if (i >= __ldg(count) || !step.steps()) return;
    const std::uint32_t dim = gradients.columns,
                        row = (ids == nullptr ? i : __ldg(ids + i)) - (first_id == nullptr ? 0 : __ldg(first_id));
    float* const value = table[row];
    for (unsigned chunk = 0; chunk * gradient_slice::columns < dim; ++chunk) {
        const gradient_slice slice(chunk, threadIdx.x % warp_lanes, dim);
        const typename gradient_slice::packet g = slice.load(gradients[i]);
        GNEISS_UNROLL
        for (unsigned part = 0; part < gradient_slice::size; part += 4) { // 16 bytes of floats
            float x[4], state[2][4] = {};
            move<Aligned, false>(slice, part, value, x);
            GNEISS_UNROLL
            for (int s = 0; s < states; ++s)
                move<Aligned, false>(slice, part, value + static_cast<std::size_t>(s + 1) * dim, state[s]);
            GNEISS_UNROLL
            for (unsigned k = 0; k < 4; ++k) {
                float* const of_value[2] = {&state[0][k], &state[1][k]};
                step(x[k], of_value, g[part + k]);
            }
            move<Aligned, true>(slice, part, value, x);
            GNEISS_UNROLL
            for (int s = 0; s < states; ++s)
                move<Aligned, true>(slice, part, value + static_cast<std::size_t>(s + 1) * dim, state[s]);
        }
    }
}

/// Layout of an arena's state in the host's `dense_optimizer`: blocks of values, each with its states in sequence.
inline constexpr std::size_t dense_block = 1024;

/// Computes partial sums of squares, one per 16 blocks.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) sum_squares(const float* gradients, std::size_t size, double* partial) {
    const std::size_t begin = std::size_t{blockIdx.x} * 16 * dense_block, end = min(begin + 16 * dense_block, size);
    double sum = 0;
    for (std::size_t i = begin + threadIdx.x; i < end; i += Threads) {
        const auto g = static_cast<double>(reread(gradients + i));
        sum += g * g;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
template <unsigned Threads>
__global__ void __launch_bounds__(Threads)
    finish_norm(const double* partial, std::uint32_t parts, gradient_norm* norm) {
    double sum = 0;
    for (std::uint32_t i = threadIdx.x; i < parts; i += Threads) sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) norm->value = sqrt(sum);
}

template <class O>
__global__ void __launch_bounds__(256)
    step_dense(O optimizer, const step_state* at, const gradient_norm* norm, double clip_norm, double weight_decay,
        bool decoupled, const std::uint8_t* decays, std::size_t size, float* values, float* gradients, float* state) {
    constexpr int states = stepper<O>::states;
    const stepper<O> step(optimizer, at);
    const std::size_t i = std::size_t{blockIdx.x} * 256 + threadIdx.x;
    if (i >= size || !step.steps() || !(norm->value < __builtin_inf())) return;
    float g = reread(gradients + i), x = reread(values + i);
    if (clip_norm > 0 && norm->value > clip_norm) g *= static_cast<float>(clip_norm / norm->value);
    if (weight_decay != 0 && __ldg(decays + i / 16) != 0) {
        if (decoupled)
            x *= static_cast<float>(1 - static_cast<double>(step.rate()) * weight_decay);
        else
            g += static_cast<float>(weight_decay) * x;
    }
    const std::size_t block = i / dense_block * dense_block, width = min(dense_block, size - block);
    float* const mine = state + block * static_cast<std::size_t>(states) + (i - block);
    float s[2] = {};
    for (int k = 0; k < states; ++k) s[k] = reread(mine + static_cast<std::size_t>(k) * width);
    float* const of_value[2] = {&s[0], &s[1]};
    step(x, of_value, g);
    for (int k = 0; k < states; ++k) write(mine + static_cast<std::size_t>(k) * width, s[k]);
    write(values + i, x);
    write(gradients + i, 0);
}

} // namespace detail

/// Updates rows of a table of [values | state] by their gradients: row ids[i] − *first of `table` [·, dim + state] by
/// row i of `gradients` [*count, dim]; without ids row i. Ids are distinct; at most `capacity` rows.
///
/// Cost: one read and one write of those rows, one read of the gradients; 16 bytes per lane if dim is a multiple of a
/// packet.
template <class O, storage T>
void step_rows(cudaStream_t stream, const O& optimizer, const step_state* at, const std::uint32_t* count,
    std::uint32_t capacity, const std::uint32_t* ids, const std::uint32_t* first, rows_view<const T> gradients,
    rows_view<float> table) {
    const auto with = [&](auto kernel) {
        launch(stream, kernel, detail::warp_grid(capacity), 256, 0, optimizer, at, count, ids, first, gradients, table);
    };
    if (gradients.aligned() && table.aligned() && gradients.columns % 4 == 0)
        with(detail::step_rows<O, T, true>);
    else
        with(detail::step_rows<O, T, false>);
}

/// `dense_optimizer_options` for devices, with the values that decay: one byte per 16 values of the arena, 0 or 1.
struct dense_step_options {
    double weight_decay = 0;              ///< weight decay, as in `dense_optimizer_options`
    bool decoupled = false;               ///< decay applies to values instead of gradients
    double clip_norm = 0;                 ///< maximum norm of the gradients; 0: no clipping
    const std::uint8_t* decays = nullptr; ///< [⌈size / 16⌉], in device memory; may be null without decay
};

/// Returns the doubles of scratch for arenas of `size` values.
[[nodiscard]] inline std::size_t dense_step_scratch(std::size_t size) {
    return ceil_div(size, 16 * detail::dense_block);
}

/// One step of an arena of parameters, as `dense_optimizer::step`: clips, decays, updates and zeroes the gradients,
/// unless *norm is not finite. Values, state and their layout are those of the host. Three kernels, one pass over the
/// arena.
template <class O>
void step_dense(cudaStream_t stream, const O& optimizer, const step_state* at, const dense_step_options& options,
    std::size_t size, float* values, float* gradients, float* state, double* scratch, gradient_norm* norm) {
    const auto parts = static_cast<std::uint32_t>(dense_step_scratch(size));
    launch(stream, detail::sum_squares<256>, parts, 256, 0, gradients, size, scratch);
    launch(stream, detail::finish_norm<256>, 1, 256, 0, scratch, parts, norm);
    launch(stream, detail::step_dense<O>, static_cast<unsigned>(ceil_div(size, std::size_t{256})), 256, 0, optimizer,
        at, norm, options.clip_norm, options.weight_decay, options.decoupled, options.decays, size, values, gradients,
        state);
}

} // namespace gneiss::cuda
