// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Returns the error errc::not_finite "WHAT: training diverged; lower --lr".
[[nodiscard]] gneiss::error diverged(const std::string& what);

/// Throws `diverged`, naming the node, unless all its outputs are finite.
void check_outputs(const gneiss::dataset& data, std::uint64_t row, std::span<const float> outputs);

/// Returns `diverged` for a score that is not a number, with names in place of ids.
[[nodiscard]] gneiss::error named(const gneiss::score_not_finite& e, const gneiss::dataset& data);

/// Returns the result of `rank`, whose errors of scores that are not numbers name the query.
template <class Rank>
[[nodiscard]] auto with_names(const gneiss::dataset& data, Rank&& rank) {
    try {
        return rank();
    } catch (const gneiss::score_not_finite& e) {
        throw named(e, data);
    }
}

} // namespace trainers
