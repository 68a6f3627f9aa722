// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/eval/ranking.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>

namespace trainers {

/// Returns the error errc::not_finite "WHAT: training diverged; lower --lr".
[[nodiscard]] gneiss::error diverged(const std::string& what);

/// True if the squares of all numbers are finite.
[[nodiscard]] bool have_finite_squares(std::span<const float> numbers) noexcept;
/// The same for the numbers of a matrix.
[[nodiscard]] bool have_finite_squares(gneiss::matrix_view<const float> rows) noexcept;
/// The same for all rows, in one pass. Errors: those of `partition_buffer`.
[[nodiscard]] bool have_finite_squares(gneiss::partition_buffer& rows);

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
