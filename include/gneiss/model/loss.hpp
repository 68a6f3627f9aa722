// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <gneiss/core/error.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/detail/vector_math.hpp>

// Every loss models `ranking_loss`: one query, the score of its true answer against those of its negatives.
// Cost: O(negatives), two or three vectorized passes and no allocation. Scores are never an error: a NaN gives a NaN
// loss.
namespace gneiss {

namespace detail {

/// Copies the scores to the gradients' memory, so that the loops below use one array and vectorize.
template <class T>
T* in_place(std::span<const T> scores, std::span<T> gradient) noexcept {
    if (scores.data() != gradient.data()) std::copy(scores.begin(), scores.end(), gradient.begin());
    return gradient.data();
}

template <class T>
void scale(std::span<T> x, T by) noexcept {
    T* at = x.data();
    for (std::size_t i = 0; i < x.size(); ++i) at[i] *= by;
}

/// Returns the number of unmasked scores.
template <class T>
T unmasked(std::span<const T> x) noexcept {
    const T* in = x.data();
    return lane_sum<T>(
        x.size(), [in](std::size_t i) { return in[i] == -std::numeric_limits<T>::infinity() ? T{0} : T{1}; });
}

} // namespace detail

/// Softmax cross-entropy: −s⁺ + log(e^s⁺ + Σ e^s⁻). The positive is one of the classes.
struct softmax_loss {
    template <class T>
    loss_and_gradient<T> operator()(T positive, vector_in<T> negatives, std::span<T> gradient) const noexcept {
        const T highest = detail::lane_max(negatives.data(), negatives.size());
        const T top = positive > highest ? positive : highest;
        const T mine = detail::exponential(positive - top);
        const T rest = detail::shifted_exponentials(detail::in_place<T>(negatives, gradient), gradient.size(), top);
        const T sum = rest + mine;
        detail::scale(gradient, T{1} / sum);
        return {
            std::log(static_cast<double>(sum)) + static_cast<double>(top) - static_cast<double>(positive), -rest / sum};
    }
};

/// Equation (1) of the paper as printed: −(s⁺ − log Σ e^s⁻). The positive is outside the log-sum, so the loss has no
/// lower bound. A query without an unmasked negative has no loss. Source: Marius, section 2.1.
struct marius_loss {
    template <class T>
    loss_and_gradient<T> operator()(T positive, vector_in<T> negatives, std::span<T> gradient) const noexcept {
        T top = detail::lane_max(negatives.data(), negatives.size());
        const bool none = top == -std::numeric_limits<T>::infinity();
        if (none) top = 0; // a NaN among them is still noticed
        const T sum = detail::shifted_exponentials(detail::in_place<T>(negatives, gradient), gradient.size(), top);
        if (none && sum == T{0}) return {};
        detail::scale(gradient, T{1} / sum);
        return {std::log(static_cast<double>(sum)) + static_cast<double>(top) - static_cast<double>(positive), T{-1}};
    }
};

/// Binary cross-entropy: log(1 + e^−s⁺) + the mean of log(1 + e^s⁻) over the unmasked negatives, so that both classes
/// have the same weight at any number of negatives.
struct logistic_loss {
    template <class T>
    loss_and_gradient<T> operator()(T positive, vector_in<T> negatives, std::span<T> gradient) const noexcept {
        const T count = detail::unmasked<T>(negatives);
        const T weight = count > T{0} ? T{1} / count : T{0};
        const std::size_t n = negatives.size();
        T* at = detail::in_place<T>(negatives, gradient);
        // log(1 + eˣ) = max(x, 0) + log(1 + e^−|x|); products of up to 64 factors in [1, 2] save the logarithms
        double soft = 0;
        T linear = 0;
        T small[block];
        for (std::size_t first = 0; first < n; first += block) {
            const std::size_t size = n - first < block ? n - first : block;
            T product[detail::lanes];
            for (T& p : product) p = 1;
            T* const x = at + first;
            for (std::size_t i = 0; i < size; ++i) small[i] = x[i] > T{0} ? -x[i] : x[i];
            detail::shifted_exponentials(small, size, T{0});
            linear += detail::lane_sum<T>(size, [x](std::size_t i) { return x[i] > T{0} ? x[i] : T{0}; });
            for (std::size_t i = 0; i < size; ++i) {
                const T inverse = T{1} / (T{1} + small[i]);
                x[i] = weight * (x[i] > T{0} ? inverse : small[i] * inverse);
            }
            const std::size_t whole = size / detail::lanes * detail::lanes;
            for (std::size_t i = 0; i < whole; i += detail::lanes)
                for (std::size_t j = 0; j < detail::lanes; ++j) product[j] *= T{1} + small[i + j];
            for (std::size_t i = whole; i < size; ++i) product[i - whole] *= T{1} + small[i];
            for (const T p : product) soft += std::log(static_cast<double>(p));
        }
        const T own = detail::exponential(-std::abs(positive));
        const double mine =
            std::log1p(static_cast<double>(own)) + static_cast<double>(positive < T{0} ? -positive : T{0});
        const T wrong = positive > T{0} ? own / (T{1} + own) : T{1} / (T{1} + own); // 1 − σ(s⁺)
        return {mine + static_cast<double>(weight) * (soft + static_cast<double>(linear)), -wrong};
    }

private:
    static constexpr std::size_t block = 64 * detail::lanes;
};

/// The mean of max(0, margin − s⁺ + s⁻) over the unmasked negatives. Subgradient 0 at the kink.
struct margin_loss {
    float margin = 1; ///< least difference of scores without loss

    template <class T>
    loss_and_gradient<T> operator()(T positive, vector_in<T> negatives, std::span<T> gradient) const noexcept {
        const T count = detail::unmasked<T>(negatives);
        const T weight = count > T{0} ? T{1} / count : T{0};
        const T at_least = static_cast<T>(margin) - positive;
        T* at = detail::in_place<T>(negatives, gradient);
        const T sum = detail::lane_sum<T>(negatives.size(), [at, at_least](std::size_t i) {
            const T short_of = at_least + at[i];
            return short_of <= T{0} ? T{0} : short_of;
        });
        const T above = detail::lane_sum<T>(negatives.size(), [at, at_least, weight](std::size_t i) {
            const T active = at_least + at[i] > T{0} ? T{1} : T{0};
            at[i] = active * weight;
            return active;
        });
        return {static_cast<double>(sum) * static_cast<double>(weight), -above * weight};
    }
};

/// Type-erased `ranking_loss`, so that models need not be compiled for each: one branch per query for the losses above,
/// one indirect call for your own.
class any_loss {
public:
    /// Takes a loss over.
    template <class L>
        requires(!std::same_as<L, any_loss>)
    any_loss(L loss) : loss_(hold(std::move(loss))) { // NOLINT(google-explicit-constructor): stands for the loss
        static_assert(
            ranking_loss<L>, "any_loss: the object must be a gneiss::ranking_loss, see gneiss/model/concepts.hpp");
    }

    /// Calls the loss. Your own computes in float: throws errc::unsupported for another T.
    template <class T>
    loss_and_gradient<T> operator()(T positive, vector_in<T> negatives, std::span<T> gradient) const {
        return std::visit([&](const auto& loss) { return loss(positive, negatives, gradient); }, loss_);
    }
    /// Returns true if it has a log-sum over the candidates, which `log_q_correction_of` compensates. Your own loss
    /// declares it: `static constexpr bool has_log_sum = true`.
    [[nodiscard]] bool has_log_sum() const noexcept {
        const own_loss* own = std::get_if<own_loss>(&loss_);
        if (own != nullptr) return own->has_log_sum;
        return std::holds_alternative<softmax_loss>(loss_) || std::holds_alternative<marius_loss>(loss_);
    }

private:
    struct own_loss {
        std::function<loss_and_gradient<float>(float, std::span<const float>, std::span<float>)> call;
        bool has_log_sum = false;

        template <class T>
        loss_and_gradient<T> operator()(T positive, vector_in<T> negatives, std::span<T> gradient) const {
            if constexpr (std::same_as<T, float>)
                return call(positive, negatives, gradient);
            else
                throw error(errc::unsupported, "your own loss computes in float");
        }
    };
    using any = std::variant<softmax_loss, marius_loss, logistic_loss, margin_loss, own_loss>;

    template <class L>
    static any hold(L loss) {
        if constexpr (std::same_as<L, softmax_loss> || std::same_as<L, marius_loss> || std::same_as<L, logistic_loss> ||
            std::same_as<L, margin_loss>) {
            return loss;
        } else if constexpr (ranking_loss<L>) {
            own_loss own{[loss = std::move(loss)](float positive, std::span<const float> negatives,
                             std::span<float> gradient) { return loss(positive, negatives, gradient); }};
            if constexpr (requires {
                              { L::has_log_sum } -> std::convertible_to<bool>;
                          })
                own.has_log_sum = L::has_log_sum;
            return own;
        } else {
            return {};
        }
    }

    any loss_;
};

/// Names of the losses.
inline constexpr std::array<std::string_view, 4> loss_names = {"softmax", "marius", "logistic", "margin"};

/// Returns the loss of that name; `margin` is for the margin loss. Throws `invalid_argument` for an unknown name.
[[nodiscard]] inline any_loss make_loss(std::string_view name, float margin = 1) {
    if (name == "softmax") return softmax_loss{};
    if (name == "marius") return marius_loss{};
    if (name == "logistic") return logistic_loss{};
    if (name == "margin") return margin_loss{margin};
    throw error(errc::invalid_argument, "no loss \"" + std::string(name) + "\": softmax, marius, logistic or margin");
}

static_assert(ranking_loss<softmax_loss> && ranking_loss<marius_loss> && ranking_loss<logistic_loss> &&
    ranking_loss<margin_loss> && ranking_loss<any_loss>);

} // namespace gneiss
