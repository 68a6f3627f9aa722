// SPDX-License-Identifier: Apache-2.0
#include "kit/report/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

namespace programs {

double student_t(std::size_t freedom, double confidence) {
    // With t = √freedom · tan a, the density is proportional to cosᶠ⁻¹ a on [0, π/2]: Simpson's rule.
    const auto area = [&](double end) {
        constexpr int panels = 2000;
        double sum = 0;
        for (int i = 0; i <= panels; ++i)
            sum += (i == 0 || i == panels ? 1
                           : i % 2 != 0   ? 4
                                          : 2) *
                std::pow(std::max(0.0, std::cos(end * i / panels)), static_cast<double>(freedom - 1));
        return sum * end / (3 * panels);
    };
    double low = 0, high = std::numbers::pi / 2;
    const double wanted = confidence * area(high);
    for (int i = 0; i < 50; ++i) (area((low + high) / 2) < wanted ? low : high) = (low + high) / 2;
    return std::sqrt(static_cast<double>(freedom)) * std::tan(low);
}

estimate estimate_mean(std::span<const double> values) {
    estimate result{.count = values.size()};
    if (values.empty()) return result;
    const auto count = static_cast<double>(values.size());
    for (const double value : values) result.mean += value / count;
    if (values.size() < 2) return result;
    double squares = 0;
    for (const double value : values) squares += (value - result.mean) * (value - result.mean);
    result.half = student_t(values.size() - 1) * std::sqrt(squares / (count - 1) / count);
    return result;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string to_text(const estimate& of, bool difference) {
    if (of.count == 0) return {};
    const std::string mean = difference ? fmt::format("{:+.4f}", of.mean) : fmt::format("{:.4f}", of.mean);
    return of.half ? fmt::format("{} ± {:.4f}", mean, *of.half) : mean;
}

} // namespace programs
