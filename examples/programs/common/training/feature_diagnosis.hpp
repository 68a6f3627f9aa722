#pragma once

#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Throws errc::not_finite that names the first row of features with a number that is none; returns where there is none.
/// Cost: one pass over the features.
void diagnose_features(const gneiss::dataset& data, const gneiss::node_features& features);

} // namespace trainers
