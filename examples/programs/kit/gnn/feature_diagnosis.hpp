// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Throws errc::not_finite that names the first feature row with a non-finite value; returns if there is none. Cost:
/// one pass over the features.
void diagnose_features(const gneiss::dataset& data, const gneiss::node_features& features);

/// Returns a sentence if a column of dense features is so large that layers learn badly from it, and how to mend it;
/// else an empty text. Cost: reads at most 256 rows.
[[nodiscard]] std::string doubt_features(const gneiss::dataset& data, const gneiss::node_features& features);

} // namespace trainers
