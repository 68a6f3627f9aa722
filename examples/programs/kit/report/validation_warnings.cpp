// SPDX-License-Identifier: Apache-2.0
#include "kit/report/validation_warnings.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace programs {

namespace {

/// A validation by the metric that compares states.
struct judged {
    const epoch_record* epoch = nullptr;
    std::string metric{};
    double value = 0;
};

std::vector<judged> judged_epochs(const std::vector<epoch_record>& epochs, const metric_order& order) {
    std::vector<judged> found;
    for (const epoch_record& epoch : epochs)
        if (const auto* value = order.of(epoch.valid); value != nullptr)
            found.push_back({&epoch, value->first, value->second});
    return found;
}

} // namespace

double noise_of(double value, std::uint64_t examples) {
    if (value < 0 || value > 1) return std::abs(value) / 50;
    return 2 * std::sqrt(value * (1 - value) / static_cast<double>(std::max<std::uint64_t>(examples, 1)));
}

std::vector<std::string> flags_against_overfitting(const nlohmann::ordered_json& config) {
    const auto has = [&](const char* name) { // flags of another task have no value
        const auto found = config.find(name);
        return found != config.end() && !found->is_null();
    };
    std::vector<std::string> flags;
    for (const char* name : {"dropout", "weight-decay"})
        if (has(name)) flags.push_back(fmt::format("--{}", name));
    if (has("regularizer"))
        flags.push_back(config.at("regularizer") == "none" ? "--regularizer" : "--regularizer-weight");
    return flags;
}

std::vector<std::string> validation_warnings(
    const std::vector<epoch_record>& epochs, const metric_order& order, const validated_run& of) {
    const std::vector<judged> seen = judged_epochs(epochs, order);
    std::vector<std::string> warnings;
    if (seen.size() < 4) return warnings; // no trend
    const auto best = std::max_element(seen.begin(), seen.end(),
        [](const judged& a, const judged& b) { return metric_order::better(b.metric, b.value, a.value); });
    const judged& last = seen.back();
    const bool long_ago = 3 * (last.epoch->epoch - best->epoch->epoch) >= of.epochs;
    const bool fell = std::abs(last.value - best->value) > noise_of(best->value, of.examples);
    const bool learns = best->epoch->loss && last.epoch->loss && *last.epoch->loss < 0.9 * *best->epoch->loss;
    if (long_ago && fell) {
        std::string text = fmt::format(
            "valid {} was {:.4f} after epoch {} and is {:.4f} after epoch {}: the model overfits; fewer --epochs or {} "
            "end it sooner",
            of.measure, best->value, best->epoch->epoch, last.value, last.epoch->epoch,
            of.stops_early ? "a lower --early-stop" : "--early-stop N");
        for (std::size_t i = 0; i < of.mends.size(); ++i)
            text.append(i > 0 && i + 1 == of.mends.size() ? " or " : ", ").append(of.mends[i]);
        warnings.push_back(of.mends.empty() ? text : text + " may mend it");
    } else if (long_ago && learns && !of.stops_early && 3 * best->epoch->epoch <= of.epochs)
        warnings.push_back(fmt::format("valid {} is no better than after epoch {}, {:.4f}, while the loss fell from "
                                       "{:.4g} to {:.4g}: --early-stop "
                                       "N ends such a run sooner",
            of.measure, best->epoch->epoch, best->value, *best->epoch->loss, *last.epoch->loss));
    if (of.largest_class > 0) {
        const auto at_share = [&](const judged& e) {
            const auto accuracy = value_of(e.epoch->valid, "accuracy");
            return accuracy && std::abs(*accuracy - of.largest_class) <= 0.005;
        };
        if (std::ranges::all_of(seen, at_share))
            warnings.push_back(fmt::format(
                "valid accuracy stays at {:.4f}, the share of the largest class: the model predicts it for nearly all "
                "nodes; try --class-weights balanced, a larger --fanout, more --epochs or another --lr",
                of.largest_class));
    }
    return warnings;
}

} // namespace programs
