// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/memory_plan.hpp>

namespace trainers {

/// A plan whose parts do not fit, with what helps.
class refused_plan : public gneiss::over_budget {
public:
    refused_plan(std::uint64_t budget, const gneiss::memory_plan& plan, const std::string& remedy)
        : refused_plan(budget, plan.parts(), remedy) {}
    refused_plan(std::uint64_t budget, std::vector<gneiss::memory_need> parts, const std::string& remedy)
        : over_budget(budget, std::move(parts)),
          text_(over_budget::what() + ("; " + remedy)) {}

    [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};

} // namespace trainers
