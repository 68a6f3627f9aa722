// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/optimizer.hpp>

namespace gneiss {

/// Sums the gradients of replicas before a step: takes the whole arena of gradients, in place. Empty on one machine.
/// Called once per step, on the thread of the step; an exception leaves the parameters unchanged.
using gradient_reduction = std::function<void(std::span<float>)>;

/// Options of steps of dense parameters. The defaults add nothing to the optimizer.
struct dense_optimizer_options {
    double weight_decay = 0; ///< λ, for arrays that decay
    /// value −= rate · λ · value outside the step (AdamW), not gradient += λ · value. Source: Loshchilov and Hutter,
    /// ICLR 2019
    bool decoupled = false;
    double clip_norm = 0; ///< gradients are scaled down to this Euclidean norm; 0: never
};

/// A row optimizer that can also step dense parameters.
///
/// Meaning: each value is stepped only by its own gradient and state, so `step` may be called for any range of the
/// arena and `state_floats(n)` is n · `state_floats(1)`; `rate` is the learning rate, which schedules multiply.
/// Cost: as `row_optimizer`. Thread-safe.
template <class O>
concept dense_update_rule = row_optimizer<O> && std::copy_constructible<O> && requires(O& o) {
    { o.rate } -> std::same_as<float&>;
};
static_assert(dense_update_rule<sgd> && dense_update_rule<adagrad> && dense_update_rule<adam>);

/// Steps `dense_parameters` by an update rule, with decay and clipping.
///
///     const dense_optimizer optimizer(adam{.rate = .01F}, {.weight_decay = 5e-4});
///     optimizer.allocate_state(weights);
///     optimizer.step(weights, t, factor, executor);
///
/// The rule's type is chosen at run time, at one virtual call per block of 1024 values. The arena is stepped in such
/// blocks, each with its own state, so the state arena is a sequence of blocks' states: opaque, but a function of the
/// sizes alone. Copies share the rule. Immutable and thread-safe; results do not depend on the executor.
class dense_optimizer {
public:
    /// Constructs from `sgd`, `adagrad`, `adam`, or a custom rule. Throws `invalid_argument` for negative options, or a
    /// rule whose state is not a number of floats per value.
    template <class Rule>
    explicit dense_optimizer(Rule rule, const dense_optimizer_options& options = {}) : options_(options) {
        static_assert(dense_update_rule<Rule>,
            "a dense optimizer takes a dense_update_rule: a row_optimizer whose float member `rate` is the learning "
            "rate");
        const auto usable = [](double x) { return x >= 0 && std::isfinite(x); };
        if (!usable(options.weight_decay) || !usable(options.clip_norm))
            throw error(errc::invalid_argument, "weight decay and the norm to clip at must be 0 or more");
        if constexpr (dense_update_rule<Rule>) {
            if (Rule::state_floats(block) != block * Rule::state_floats(1))
                throw error(errc::invalid_argument,
                    "a dense optimizer keeps state for each value, and this rule keeps it for each row");
            self_ = std::make_shared<holder<Rule>>(std::move(rule));
        }
    }

    /// Returns the rule if it is an O, else null: for devices that step by themselves.
    template <dense_update_rule O>
    [[nodiscard]] const O* get_if() const noexcept {
        const auto* held = dynamic_cast<const holder<O>*>(self_.get());
        return held == nullptr ? nullptr : &held->rule;
    }
    [[nodiscard]] const dense_optimizer_options& options() const noexcept { return options_; }
    /// Returns the state floats of a value.
    [[nodiscard]] std::size_t state_per_value() const { return self_->state_per_value(); }
    /// Allocates the state of this optimizer.
    void allocate_state(dense_parameters<float>& of) const {
        of.allocate_state(state_per_value(), self_->initial_state());
    }

    /// Throws errc::invalid_argument unless the weights and this optimizer's state are allocated. O(1).
    void check_state(const dense_parameters<float>& of) const {
        if (!of.allocated())
            throw error(errc::invalid_argument,
                "the weights were not allocated: call allocate(seed) after all layers are made");
        if (of.state().size() != state_per_value() * of.size())
            throw error(
                errc::invalid_argument, "the optimizer's state was not allocated: call allocate_state(weights)");
    }

    /// Makes one step by the accumulated gradients, then zeroes them. `t` ≥ 1 is the number of the step, `factor` the
    /// schedule's factor of the rate. Returns the norm of the gradients before clipping. Throws `invalid_argument` as
    /// `check_state`, `not_finite`, before any change, if the norm is not finite. O(parameters).
    double step(dense_parameters<float>& of, std::uint64_t t, double factor, executor_ref executor,
        const gradient_reduction& reduce = {}) const {
        check_state(of);
        const std::size_t state_floats = state_per_value();
        if (reduce) reduce(of.gradients());
        scale_gradients(of);
        const double norm = norm_of(of.gradients(), executor);
        if (!std::isfinite(norm))
            throw error(errc::not_finite, "a gradient of step " + std::to_string(t) + " is not a finite number");
        if (options_.clip_norm > 0 && norm > options_.clip_norm)
            for (float& g : of.gradients()) g *= static_cast<float>(options_.clip_norm / norm);
        decay(of, static_cast<double>(self_->rate(factor)));
        const std::vector<float> before = scaled_values(of);
        parallel_for(executor, of.size(), block, [&](std::size_t i, std::size_t end) {
            const auto state = of.state().subspan(i * state_floats, (end - i) * state_floats);
            self_->step(of.values().subspan(i, end - i), state, of.gradients().subspan(i, end - i), t, factor);
        });
        scale_steps(of, before);
        of.zero_gradients();
        return norm;
    }

private:
    static constexpr std::size_t block = 1024;

    struct base {
        virtual ~base() = default;
        [[nodiscard]] virtual std::size_t state_per_value() const = 0;
        [[nodiscard]] virtual float initial_state() const = 0;
        [[nodiscard]] virtual float rate(double factor) const = 0;
        virtual void step(std::span<float> values, std::span<float> state, std::span<const float> gradients,
            std::uint64_t t, double factor) const = 0;
    };
    template <class Rule>
    struct holder final : base {
        explicit holder(Rule r) : rule(std::move(r)) {}
        std::size_t state_per_value() const override { return Rule::state_floats(1); }
        float initial_state() const override { return rule.initial_state(); }
        float rate(double factor) const override { return static_cast<float>(static_cast<double>(rule.rate) * factor); }
        void step(std::span<float> values, std::span<float> state, std::span<const float> gradients, std::uint64_t t,
            double factor) const override {
            Rule scaled = rule;
            scaled.rate = rate(factor);
            scaled.step(values, state, gradients, t);
        }
        Rule rule;
    };

    [[nodiscard]] static double norm_of(std::span<const float> g, executor_ref executor) {
        return std::sqrt(parallel_reduce(executor, g.size(), 16 * block, 0.0, [g](std::size_t i, std::size_t end) {
            double sum = 0;
            for (; i < end; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
            return sum;
        }));
    }
    void decay(dense_parameters<float>& of, double rate) const noexcept {
        if (options_.weight_decay == 0) return;
        const auto add = static_cast<float>(options_.weight_decay),
                   keep = static_cast<float>(1 - rate * options_.weight_decay);
        for (const auto& a : of.arrays()) {
            if (!a.decays) continue;
            const auto x = of.values().subspan(a.offset, a.size());
            const auto g = of.gradients().subspan(a.offset, a.size());
            for (std::size_t i = 0; i < x.size(); ++i) {
                if (options_.decoupled)
                    x[i] *= keep;
                else
                    g[i] += add / a.scale * x[i];
            }
        }
    }

    /// Multiplies the gradients of the arrays that have a scale: those of the arrays that are stepped.
    static void scale_gradients(dense_parameters<float>& of) noexcept {
        for (const auto& a : of.arrays())
            if (a.scale != 1)
                for (float& g : of.gradients().subspan(a.offset, a.size())) g *= a.scale;
    }
    /// Returns the values of those arrays.
    [[nodiscard]] static std::vector<float> scaled_values(const dense_parameters<float>& of) {
        std::vector<float> result;
        for (const auto& a : of.arrays())
            if (a.scale != 1) {
                const auto x = of.values().subspan(a.offset, a.size());
                result.insert(result.end(), x.begin(), x.end());
            }
        return result;
    }
    /// Multiplies their steps.
    static void scale_steps(dense_parameters<float>& of, const std::vector<float>& before) noexcept {
        auto old = before.begin();
        for (const auto& a : of.arrays())
            if (a.scale != 1)
                for (float& x : of.values().subspan(a.offset, a.size())) {
                    x = *old + a.scale * (x - *old);
                    ++old;
                }
    }

    std::shared_ptr<const base> self_;
    dense_optimizer_options options_;
};

/// Names of the library's rules.
inline constexpr std::array<std::string_view, 4> dense_optimizer_names = {"sgd", "adagrad", "adam", "adamw"};

/// Returns the optimizer of that name at a learning rate; "adamw" is adam with decoupled decay. Throws
/// `invalid_argument` for an unknown name, or invalid numbers.
[[nodiscard]] inline dense_optimizer make_dense_optimizer(
    std::string_view name, float rate, dense_optimizer_options options = {}) {
    if (!(rate > 0) || !std::isfinite(rate))
        throw error(errc::invalid_argument, "a learning rate must be positive and finite");
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
