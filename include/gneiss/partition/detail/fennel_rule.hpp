// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// FENNEL's score, neighbors − αγ (s/μ)^(γ−1), for groups that each have a share μ of all nodes.
class fennel_rule {
public:
    /// \param total   W, the weight of all nodes; α = m k^(γ−1) / W^γ with m = arcs / 2
    /// \param counts  [groups] nodes per group, or empty: one group, μ = 1
    fennel_rule(
        double gamma, std::uint64_t total, edge_index arcs, std::uint32_t parts, std::span<const std::uint64_t> counts)
        : power_(gamma - 1) {
        if (!(gamma > 1 && gamma <= 10))
            throw error(errc::invalid_argument, "a number above 1, at most 10, is needed", {.field = "gamma"});
        const auto whole = static_cast<double>(std::max<std::uint64_t>(total, 1));
        const double edges =
            static_cast<double>(std::max<edge_index>(arcs, 2)) / 2; // without edges, balance still counts
        const double slope = gamma * edges / whole * std::pow(parts / whole, power_);
        double all = 0;
        for (const std::uint64_t n : counts) all += static_cast<double>(n);
        for (const std::uint64_t n : counts)
            slopes_.push_back(n == 0 ? 0 : slope * std::pow(all / static_cast<double>(n), power_));
        if (counts.empty()) slopes_.push_back(slope);
    }

    [[nodiscard]] double load_penalty(std::size_t group, std::uint64_t load) const noexcept {
        const auto s = static_cast<double>(load);
        return slopes_[group] * (power_ == .5 ? std::sqrt(s) : std::pow(s, power_));
    }
    [[nodiscard]] static double score(std::uint32_t neighbors, double load_penalty) noexcept {
        return neighbors - load_penalty;
    }

private:
    double power_;
    std::vector<double> slopes_; // [groups] αγ / μ^(γ−1)
};

} // namespace gneiss::detail
