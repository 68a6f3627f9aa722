// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>

#include "kit/report/records.hpp"

namespace trainers {

/// Result of a run.
struct run_result {
    std::filesystem::path run;
    programs::run_record record{};
    std::optional<nlohmann::ordered_json> finished{}; ///< its run.json, if it had finished before
};

} // namespace trainers
