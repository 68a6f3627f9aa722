// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/vector_math.hpp>

namespace gneiss {

/// value −= rate · gradient. No state.
struct sgd {
    float rate = 0.1F; ///< learning rate

    static constexpr std::size_t state_floats(std::size_t) noexcept { return 0; }
    static constexpr float initial_state() noexcept { return 0; }

    void step(std::span<float> value, std::span<float>, std::span<const float> gradient, std::uint64_t) const noexcept {
        float* const x = value.data();
        const float* const g = gradient.data();
        const sgd by = *this; // a copy: stores through x cannot change it, so the loop vectorizes
        for (std::size_t i = 0; i < gradient.size(); ++i) by.step_one(x[i], g[i]);
    }
    /// Steps one value.
    GNEISS_HD constexpr void step_one(float& value, float gradient) const noexcept { value -= rate * gradient; }
};

/// state += gradient²; value −= rate · gradient / (√state + epsilon). Source: Duchi et al., JMLR 2011.
struct adagrad {
    float rate = 0.1F;      ///< learning rate
    float epsilon = 1e-10F; ///< added to the root

    static constexpr std::size_t state_floats(std::size_t dim) noexcept { return dim; }
    static constexpr float initial_state() noexcept { return 0; }

    void step(
        std::span<float> value, std::span<float> state, std::span<const float> gradient, std::uint64_t) const noexcept {
        float* const x = value.data();
        float* const s = state.data();
        const float* const g = gradient.data();
        const adagrad by = *this;
        for (std::size_t i = 0; i < gradient.size(); ++i) by.step_one(x[i], s[i], g[i]);
    }
    /// Steps one value with its state.
    GNEISS_HD void step_one(float& value, float& state, float gradient) const noexcept {
        const float sum = state + gradient * gradient;
        state = sum;
        value -= rate * gradient / (detail::square_root(sum) + epsilon);
    }
};

/// Adam with both moments corrected by the batch's number t; a row that a batch does not use keeps its moments. The
/// state is [first moments | second moments]. Source: Kingma and Ba, ICLR 2015.
struct adam {
    float rate = 0.001F;   ///< learning rate
    float beta1 = 0.9F;    ///< decay of first moments
    float beta2 = 0.999F;  ///< decay of second moments
    float epsilon = 1e-8F; ///< added to the root

    static constexpr std::size_t state_floats(std::size_t dim) noexcept { return 2 * dim; }
    static constexpr float initial_state() noexcept { return 0; }

    void step(std::span<float> value, std::span<float> state, std::span<const float> gradient,
        std::uint64_t t) const noexcept {
        const std::size_t dim = gradient.size();
        float* const x = value.data();
        float* const first = state.data();
        float* const second = state.data() + dim;
        const float* const g = gradient.data();
        const adam by = *this;
        const moments inverse = correction(t);
        for (std::size_t i = 0; i < dim; ++i) by.step_one(x[i], first[i], second[i], g[i], inverse);
    }

    /// Factors that correct both moments.
    struct moments {
        float first, second; ///< 1 / (1 − beta^t) of each
    };
    /// Returns the factors of the moments of batch t.
    [[nodiscard]] GNEISS_HD moments correction(std::uint64_t t) const noexcept {
        const double n = static_cast<double>(t);
        return {static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta1), n))),
            static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta2), n)))};
    }
    /// Steps one value with its moments.
    GNEISS_HD void step_one(
        float& value, float& first, float& second, float gradient, const moments& inverse) const noexcept {
        const float m = beta1 * first + (1 - beta1) * gradient;
        const float v = beta2 * second + (1 - beta2) * gradient * gradient;
        first = m;
        second = v;
        value -= rate * (m * inverse.first) / (detail::square_root(v * inverse.second) + epsilon);
    }
};

static_assert(row_optimizer<sgd> && row_optimizer<adagrad> && row_optimizer<adam>);

/// A row optimizer whose type is chosen at run time, at one virtual call per block of rows. Copies share it; it is
/// immutable and thread-safe. A row is `dim` values, then `state_floats(dim)` floats of state (`row_layout`).
class any_row_optimizer {
public:
    /// Takes the optimizer over.
    template <class O>
        requires(!std::same_as<O, any_row_optimizer>)
    any_row_optimizer(O optimizer) // NOLINT(google-explicit-constructor): stands for the optimizer
        : self_(std::make_shared<holder<O>>(optimizer)) {}

    [[nodiscard]] std::size_t state_floats(std::size_t dim) const { return self_->state_floats(dim); }
    [[nodiscard]] float initial_state() const { return self_->initial_state(); }
    /// Returns the optimizer if it is an O, else null: for devices that step by themselves.
    template <row_optimizer O>
    [[nodiscard]] const O* get_if() const noexcept {
        const auto* held = dynamic_cast<const holder<O>*>(self_.get());
        return held == nullptr ? nullptr : &held->optimizer;
    }

    /// Steps row i of `rows` [n, dim + state] by row i of `gradients` [n, dim]. t ≥ 1 is the number of the batch.
    void step_rows(
        matrix_view<float> rows, matrix_view<const float> gradients, std::uint64_t t, executor_ref executor) const {
        check(rows.columns(), gradients.columns(), rows.rows() == gradients.rows());
        parallel_for(executor, gradients.rows(), grain,
            [&](std::size_t begin, std::size_t end) { self_->step(rows, {}, begin, end, 0, gradients, t); });
    }

    /// Steps one row [dim + state] by its gradient [dim]. One virtual call. Throws errc::invalid_argument for a row
    /// without room for the state.
    void step_row(std::span<float> row, std::span<const float> gradient, std::uint64_t t) const {
        self_->step({row.data(), 1, row.size()}, {}, 0, 1, 0, {gradient.data(), 1, gradient.size()}, t);
    }

    /// Steps row ids[i] − first of `table` [·, dim + state] by row i of `gradients`. Ids are distinct.
    void step_rows_at(matrix_view<float> table, std::span<const std::uint32_t> ids, matrix_view<const float> gradients,
        std::uint64_t t, executor_ref executor, std::uint64_t first = 0) const {
        check(table.columns(), gradients.columns(), ids.size() == gradients.rows());
        parallel_for(executor, ids.size(), grain,
            [&](std::size_t begin, std::size_t end) { self_->step(table, ids, begin, end, first, gradients, t); });
    }

private:
    static constexpr std::size_t grain = 256;

    struct base {
        virtual ~base() = default;
        [[nodiscard]] virtual std::size_t state_floats(std::size_t dim) const = 0;
        [[nodiscard]] virtual float initial_state() const = 0;
        virtual void step(matrix_view<float> table, std::span<const std::uint32_t> ids, std::size_t begin,
            std::size_t end, std::uint64_t first, matrix_view<const float> gradients, std::uint64_t t) const = 0;
    };
    template <class O>
    struct holder final : base {
        static_assert(row_optimizer<O>,
            "any_row_optimizer: the object must be a gneiss::row_optimizer, see gneiss/model/concepts.hpp");
        explicit holder(const O& o) : optimizer(o) {}
        std::size_t state_floats(std::size_t dim) const override { return O::state_floats(dim); }
        float initial_state() const override { return optimizer.initial_state(); }
        void step(matrix_view<float> table, std::span<const std::uint32_t> ids, std::size_t begin, std::size_t end,
            std::uint64_t first, matrix_view<const float> gradients, std::uint64_t t) const override {
            const std::size_t dim = gradients.columns();
            if (table.columns() < dim + O::state_floats(dim))
                throw state_missing(table.columns(), dim, O::state_floats(dim));
            for (std::size_t i = begin; i < end; ++i) {
                const auto row = table[ids.empty() ? i : static_cast<std::size_t>(ids[i] - first)];
                optimizer.step(row.first(dim), row.subspan(dim), gradients[i], t);
            }
        }
        O optimizer;
    };

    [[nodiscard]] static error state_missing(std::size_t row_floats, std::size_t dim, std::size_t state) {
        return {errc::invalid_argument,
            "a row of " + std::to_string(row_floats) + " floats cannot hold " + std::to_string(dim) + " of value and " +
                std::to_string(state) + " of the optimizer's state"};
    }
    void check(std::size_t row_floats, std::size_t dim, bool same) const {
        if (!same || row_floats != dim + state_floats(dim))
            throw error(errc::invalid_argument, "rows, gradients and the optimizer's state do not fit together");
    }

    std::shared_ptr<const base> self_;
};

/// Throws errc::invalid_argument unless rows of `layout` have the state floats that the optimizer writes: with fewer it
/// would write into the next row. \param rows their kind, for the message
inline void check_state_floats(const any_row_optimizer& optimizer, const row_layout& layout, std::string_view rows) {
    if (const std::size_t needed = optimizer.state_floats(layout.dim); layout.state != needed)
        throw error(errc::invalid_argument,
            "rows of " + std::string(rows) + " have " + std::to_string(layout.state) +
                " floats of optimizer state, the optimizer needs " + std::to_string(needed) + " for " +
                std::to_string(layout.dim) + " of value");
}

/// Names of the library's optimizers.
inline constexpr std::array<std::string_view, 3> optimizer_names = {"sgd", "adagrad", "adam"};

/// Returns the optimizer of that name at a learning rate, with default settings. Throws `invalid_argument` for an
/// unknown name or a rate that is not positive.
[[nodiscard]] inline any_row_optimizer make_row_optimizer(std::string_view name, float rate) {
    if (!(rate > 0) || !std::isfinite(rate))
        throw error(errc::invalid_argument, "a learning rate must be positive and finite");
    if (name == "sgd") return sgd{rate};
    if (name == "adagrad") return adagrad{.rate = rate};
    if (name == "adam") return adam{.rate = rate};
    throw error(errc::invalid_argument, "no optimizer \"" + std::string(name) + "\": sgd, adagrad or adam");
}

} // namespace gneiss
