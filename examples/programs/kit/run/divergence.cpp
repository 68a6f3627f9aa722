// SPDX-License-Identifier: Apache-2.0
#include "kit/run/divergence.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace trainers {

gneiss::error diverged(const std::string& what) {
    return {gneiss::errc::not_finite, what + ": training diverged; lower --lr"};
}

bool have_finite_squares(std::span<const float> numbers) noexcept {
    return std::ranges::all_of(numbers, [](float x) { return std::isfinite(x * x); });
}
bool have_finite_squares(gneiss::matrix_view<const float> rows) noexcept {
    for (std::size_t i = 0; i < rows.rows(); ++i)
        if (!have_finite_squares(rows[i])) return false;
    return true;
}
bool have_finite_squares(gneiss::partition_buffer& rows) {
    bool finite = true;
    rows.for_each_block(
        [&](std::uint64_t, gneiss::matrix_view<const float> block) { finite = finite && have_finite_squares(block); });
    return finite;
}

void check_outputs(const gneiss::dataset& data, std::uint64_t row, std::span<const float> outputs) {
    if (std::ranges::all_of(outputs, [](float x) { return std::isfinite(x); })) return;
    throw diverged(fmt::format("an output of node '{}' is not a finite number", data.node_label(row)));
}

gneiss::error named(const gneiss::score_not_finite& e, const gneiss::dataset& data) {
    const gneiss::link_query& q = e.query();
    const std::string known = data.node_label(q.known),
                      relation = data.manifest().relations > 1 ? ", " + data.relation_label(q.relation) : "";
    const bool tails = q.target_side == gneiss::side::tail;
    return diverged(fmt::format(
        "a score of the query ({}{}, {}) is not a number", tails ? known : "?", relation, tails ? "?" : known));
}

} // namespace trainers
