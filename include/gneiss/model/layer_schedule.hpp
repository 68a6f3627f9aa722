// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/model/input_columns.hpp>
#include <gneiss/model/layer/product_order.hpp>
#include <gneiss/model/layer_options.hpp>

namespace gneiss {

/// A schedule of a network: the order of product and sums of each layer. Networks of different schedules have the same
/// parameters, and results that are equal up to rounding; those of the same schedule have the same bits.
using layer_schedule = std::vector<product_order>;

/// Names of orders, by value.
inline constexpr std::array<std::string_view, 3> product_order_names = {"cheaper", "first", "last"};

/// Returns the order of a layer's options; `cheaper` for a linear layer, which has no sums.
[[nodiscard]] inline product_order product_of(const layer_options& layer) noexcept {
    switch (layer.kind) {
    case layer_kind::sage: return layer.sage.product;
    case layer_kind::gcn: return layer.gcn.product;
    case layer_kind::gat: return layer.gat.product;
    case layer_kind::linear: break;
    }
    return product_order::cheaper;
}

/// Returns the orders that each layer may have: `first` and `last`, or its own alone. There is no choice for a linear
/// layer, a maximum, sparse rows and an order that the options fix, nor for sums that W does not shorten, which are
/// then cheaper before it in every batch.
/// \param in  columns of the first layer
[[nodiscard]] inline std::vector<std::vector<product_order>> product_choices(
    std::span<const layer_options> layers, input_columns in) {
    std::vector<std::vector<product_order>> result;
    for (const layer_options& layer : layers) {
        const bool attends = layer.kind == layer_kind::gat,
                   fixed = layer.kind == layer_kind::linear || product_of(layer) != product_order::cheaper ||
            (layer.kind == layer_kind::sage && layer.sage.reduce == sage_reduction::max) || in.sparse != 0 ||
            (!attends && layer.width >= in.total());
        if (fixed)
            result.push_back({product_of(layer)});
        else
            result.push_back({product_order::first, product_order::last});
        in = {.dense = layer.outputs()};
    }
    return result;
}

/// Returns the schedule that layers have.
[[nodiscard]] inline layer_schedule schedule_of(std::span<const layer_options> layers) {
    layer_schedule result;
    for (const layer_options& layer : layers) result.push_back(product_of(layer));
    return result;
}
/// Returns layers with another schedule. Throws `invalid_argument` for one of another number of layers.
[[nodiscard]] inline std::vector<layer_options> scheduled(
    std::vector<layer_options> layers, const layer_schedule& schedule) {
    if (schedule.size() != layers.size())
        throw error(errc::invalid_argument,
            "a schedule of " + std::to_string(schedule.size()) + " layers for " + std::to_string(layers.size()));
    for (std::size_t i = 0; i < layers.size(); ++i)
        layers[i].sage.product = layers[i].gcn.product = layers[i].gat.product = schedule[i];
    return layers;
}

/// A schedule and its time.
struct timed_schedule {
    layer_schedule products{};       ///< orders of the layers
    std::optional<double> seconds{}; ///< none: not timed; the mean if timed twice
};

/// Schedules with their times, and the fastest of them.
struct schedule_choice {
    std::vector<timed_schedule> timed{}; ///< in the order of timing, from the given schedule on
    std::size_t chosen = 0;              ///< index of the fastest, the first of several

    /// Returns the schedule that was chosen.
    [[nodiscard]] const layer_schedule& products() const { return timed.at(chosen).products; }
    /// Returns the time of the given schedule over that of the chosen one; 1 if there was nothing to choose.
    [[nodiscard]] double gain() const {
        const auto& own = timed.at(0).seconds;
        const auto& best = timed.at(chosen).seconds;
        return own && best && *best > 0 ? *own / *best : 1;
    }
};

namespace detail {

/// Appends times to a choice, and returns the index of the fastest of them.
template <class Time>
std::size_t add_times(schedule_choice& to, std::vector<layer_schedule> candidates, Time& time) {
    const std::size_t first = to.timed.size();
    const std::vector<std::optional<double>> seconds = time(std::span<const layer_schedule>(candidates));
    if (seconds.size() != candidates.size())
        throw error(errc::invalid_argument,
            std::to_string(seconds.size()) + " times of " + std::to_string(candidates.size()) + " schedules");
    std::size_t best = first;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        to.timed.push_back({std::move(candidates[i]), seconds[i]});
        const std::optional<double>& least = to.timed[best].seconds;
        if (seconds[i] && (!least || *seconds[i] < *least)) best = first + i;
    }
    return best;
}

/// Times the given schedule and those within a tenth of the chosen one again, and chooses by the means of both times.
template <class Time>
void confirm(schedule_choice& of, Time& time) {
    const std::optional<double> least = of.timed[of.chosen].seconds;
    if (!least) return;
    std::vector<std::size_t> near{0};
    for (std::size_t i = 1; i < of.timed.size(); ++i) {
        const timed_schedule& one = of.timed[i];
        const auto same = [&](std::size_t other) { return of.timed[other].products == one.products; };
        if (one.seconds && *one.seconds <= 1.1 * *least && std::ranges::none_of(near, same)) near.push_back(i);
    }
    if (near.size() == 1) { // none but the given one
        of.chosen = 0;
        return;
    }
    std::vector<layer_schedule> candidates;
    for (const std::size_t i : near) candidates.push_back(of.timed[i].products);
    schedule_choice again;
    (void)add_times(again, std::move(candidates), time);
    of.chosen = 0;
    for (std::size_t k = 0; k < near.size(); ++k) {
        std::optional<double>& seconds = of.timed[near[k]].seconds;
        const std::optional<double>& second = again.timed[k].seconds;
        seconds = seconds && second ? std::optional((*seconds + *second) / 2) : std::nullopt;
        const std::optional<double>& best = of.timed[of.chosen].seconds;
        if (seconds && (!best || *seconds < *best)) of.chosen = near[k];
    }
}

} // namespace detail

/// Chooses a schedule by time: the fastest of the given one and all combinations of `choices`, if these are at most
/// `most`; else by coordinate descent from the given one, a layer at a time, until a pass over all layers changes
/// nothing, at most two passes. The given schedule and those within a tenth of the fastest are timed once more, and
/// the least mean of both times decides: a machine that was slow for a moment slows one of them.
/// \param time  returns the seconds of each schedule, none for one that is not to be chosen; called once for all
///              combinations, or once a layer, with the best so far in front, and once for those that are timed again;
///              not called if there is nothing to choose
/// Throws `invalid_argument` for choices of another number of layers, and what `time` throws.
/// Source: Huang's thesis, §5.4.4, which chooses orders by profiles.
template <class Time>
[[nodiscard]] schedule_choice choose_schedule(const layer_schedule& given,
    const std::vector<std::vector<product_order>>& choices, Time&& time, std::size_t most = 32) {
    if (given.size() != choices.size())
        throw error(errc::invalid_argument,
            "choices of " + std::to_string(choices.size()) + " layers for a schedule of " +
                std::to_string(given.size()));
    schedule_choice result{.timed = {{given, {}}}, .chosen = 0};
    std::vector<std::size_t> open; // layers with a choice
    std::size_t combinations = 1;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        if (choices[i].size() < 2) continue;
        open.push_back(i);
        combinations = std::min(combinations, most + 1) * choices[i].size();
    }
    if (open.empty()) return result;
    result.timed.clear();
    if (combinations <= most) {
        std::vector<layer_schedule> all{given};
        for (std::size_t n = 0; n < combinations; ++n) {
            layer_schedule one = given;
            std::size_t rest = n;
            for (std::size_t k = open.size(); k-- > 0;) {
                const std::vector<product_order>& of = choices[open[k]];
                one[open[k]] = of[rest % of.size()];
                rest /= of.size();
            }
            if (one != given) all.push_back(std::move(one));
        }
        result.chosen = detail::add_times(result, std::move(all), time);
        detail::confirm(result, time);
        return result;
    }
    layer_schedule best = given;
    for (int pass = 0; pass < 2; ++pass) {
        const layer_schedule before = best;
        for (const std::size_t i : open) {
            std::vector<layer_schedule> some{best};
            for (const product_order order : choices[i])
                if (order != best[i]) {
                    some.push_back(best);
                    some.back()[i] = order;
                }
            result.chosen = detail::add_times(result, std::move(some), time);
            best = result.products();
        }
        if (best == before) break;
    }
    detail::confirm(result, time);
    return result;
}

} // namespace gneiss
