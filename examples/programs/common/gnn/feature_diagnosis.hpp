#pragma once

#include <gneiss/io/dataset.hpp>

namespace trainers {

/// Throws errc::not_finite that names the first feature row with a non-finite value; returns if there is none. Cost: one pass
/// over the features.
void diagnose_features(const gneiss::dataset& data, const gneiss::node_features& features);

} // namespace trainers
