// SPDX-License-Identifier: Apache-2.0
#include "common/training/divergence.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace trainers {

gneiss::error diverged(const std::string& what) { return {gneiss::errc::not_finite, what + ": training diverged; lower --lr"}; }

void check_outputs(const gneiss::dataset& data, std::uint64_t row, std::span<const float> outputs) {
    if (std::ranges::all_of(outputs, [](float x) { return std::isfinite(x); })) return;
    throw diverged(fmt::format("an output of node '{}' is not a finite number", data.node_label(row)));
}

gneiss::error named(const gneiss::score_not_finite& e, const gneiss::dataset& data) {
    const gneiss::link_query& q = e.query();
    const std::string known = data.node_label(q.known), relation = data.manifest().relations > 1 ? ", " + data.relation_label(q.relation) : "";
    const bool tails = q.target_side == gneiss::side::tail;
    return diverged(fmt::format("a score of the query ({}{}, {}) is not a number", tails ? known : "?", relation, tails ? "?" : known));
}

} // namespace trainers
