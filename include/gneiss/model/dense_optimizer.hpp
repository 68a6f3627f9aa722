// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/optimizer.hpp>

namespace gneiss {

/// Where gradients of replicas are summed before a step: takes the whole arena of gradients, in place. Empty on one
/// machine.
using gradient_reduction = std::function<void(std::span<float>)>;

/// How dense parameters are stepped. A value; defaults change nothing beside the optimizer itself.
struct dense_optimizer_options {
    double weight_decay = 0;  ///< λ, of arrays that decay
    bool decoupled = false;   ///< value −= rate · λ · value beside the step (AdamW), instead of gradient += λ · value.
                              ///< Source: Loshchilov and Hutter, ICLR 2019
    double clip_norm = 0;     ///< gradients are shortened to this Euclidean norm; 0: never
};

/// Steps `dense_parameters` by an optimizer of rows, `sgd`, `adagrad` or `adam`, with decay and clipping.
///
/// The arena is stepped in blocks of 1024, each with its state beside it, so the state arena is a sequence of blocks'
/// states: opaque, but a function of the sizes alone. Immutable and thread-safe; results do not depend on the executor.
class dense_optimizer {
public:
    using any = std::variant<sgd, adagrad, adam>;

    explicit dense_optimizer(any optimizer, const dense_optimizer_options& options = {})
        : optimizer_(optimizer), options_(options) {
        const auto usable = [](double x) { return x >= 0 && std::isfinite(x); };
        if (!usable(options.weight_decay) || !usable(options.clip_norm))
            throw error(errc::invalid_argument, "weight decay and the norm to clip at must be 0 or more");
    }

    [[nodiscard]] const any& optimizer() const noexcept { return optimizer_; }
    [[nodiscard]] const dense_optimizer_options& options() const noexcept { return options_; }
    [[nodiscard]] std::size_t state_per_value() const noexcept {
        return std::visit([](const auto& o) { return o.state_floats(1); }, optimizer_);
    }
    /// Makes the state that this optimizer needs.
    void allocate_state(dense_parameters<float>& of) const {
        of.allocate_state(state_per_value(), std::visit([](const auto& o) { return o.initial_state(); }, optimizer_));
    }

    /// One step by the gradients that were added up, which are then zeroed. `t` ≥ 1 is the number of the step, `factor`
    /// what the schedule multiplies the rate by. Returns the norm of the gradients before clipping. Throws
    /// `invalid_argument` if the state was not made, `not_finite` before anything is stepped if the norm is not finite.
    /// O(parameters).
    double step(dense_parameters<float>& of, std::uint64_t t, double factor, executor_ref executor,
        const gradient_reduction& reduce = {}) const {
        if (of.state().size() != state_per_value() * of.size())
            throw error(errc::invalid_argument, "the optimizer's state was not allocated");
        if (reduce) reduce(of.gradients());
        const double norm = norm_of(of.gradients(), executor);
        if (!std::isfinite(norm))
            throw error(errc::not_finite, "a gradient of step " + std::to_string(t) + " is not a finite number");
        const any optimizer = at_rate(factor);
        const double rate = std::visit([](const auto& o) { return static_cast<double>(o.rate); }, optimizer);
        if (options_.clip_norm > 0 && norm > options_.clip_norm)
            for (float& g : of.gradients()) g *= static_cast<float>(options_.clip_norm / norm);
        decay(of, rate);
        const std::size_t state_floats = state_per_value();
        parallel_for(executor, of.size(), block, [&](std::size_t i, std::size_t end) {
            const auto state = of.state().subspan(i * state_floats, (end - i) * state_floats);
            std::visit([&](const auto& o) {
                o.step(of.values().subspan(i, end - i), state, of.gradients().subspan(i, end - i), t);
            }, optimizer);
        });
        of.zero_gradients();
        return norm;
    }

private:
    static constexpr std::size_t block = 1024;

    [[nodiscard]] any at_rate(double factor) const {
        any scaled = optimizer_;
        std::visit([factor](auto& o) { o.rate = static_cast<float>(static_cast<double>(o.rate) * factor); }, scaled);
        return scaled;
    }
    [[nodiscard]] static double norm_of(std::span<const float> g, executor_ref executor) {
        return std::sqrt(parallel_reduce(executor, g.size(), 16 * block, 0.0, [g](std::size_t i, std::size_t end) {
            double sum = 0;
            for (; i < end; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
            return sum;
        }));
    }
    void decay(dense_parameters<float>& of, double rate) const noexcept {
        if (options_.weight_decay == 0) return;
        const auto add = static_cast<float>(options_.weight_decay), keep = static_cast<float>(1 - rate * options_.weight_decay);
        for (const auto& a : of.arrays()) {
            if (!a.decays) continue;
            const auto x = of.values().subspan(a.offset, a.size());
            const auto g = of.gradients().subspan(a.offset, a.size());
            for (std::size_t i = 0; i < x.size(); ++i) {
                if (options_.decoupled) x[i] *= keep;
                else g[i] += add * x[i];
            }
        }
    }

    any optimizer_;
    dense_optimizer_options options_;
};

inline constexpr std::array<std::string_view, 4> dense_optimizer_names = {"sgd", "adagrad", "adam", "adamw"};

/// The optimizer of that name at a learning rate; "adamw" is adam with decoupled decay. Throws `invalid_argument` for
/// an unknown name, or numbers that cannot be used.
[[nodiscard]] inline dense_optimizer make_dense_optimizer(
    std::string_view name, float rate, dense_optimizer_options options = {}) {
    if (!(rate > 0) || !std::isfinite(rate)) throw error(errc::invalid_argument, "a learning rate must be positive");
    if (name == "sgd") return dense_optimizer(sgd{rate}, options);
    if (name == "adagrad") return dense_optimizer(adagrad{.rate = rate}, options);
    if (name == "adam") return dense_optimizer(adam{.rate = rate}, options);
    if (name == "adamw") {
        options.decoupled = true;
        return dense_optimizer(adam{.rate = rate}, options);
    }
    throw error(errc::invalid_argument, "no optimizer \"" + std::string(name) + "\": sgd, adagrad, adam or adamw");
}

} // namespace gneiss
