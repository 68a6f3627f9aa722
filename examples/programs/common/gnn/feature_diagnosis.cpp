#include "common/gnn/feature_diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>

namespace trainers {

void diagnose_features(const gneiss::dataset& data, const gneiss::node_features& features) {
    std::vector<float> row(static_cast<std::size_t>(features.columns()));
    for (std::uint64_t v = 0; v < features.rows(); ++v) {
        std::span<const float> values = row;
        gneiss::sparse_feature_rows sparse;
        if (features.sparse()) {
            sparse = features.read_sparse(v, 1);
            values = sparse.values;
        } else {
            features.read_dense(v, row);
        }
        if (!std::ranges::all_of(values, [](float x) { return std::isfinite(x); }))
            throw gneiss::error(gneiss::errc::not_finite,
                "the features of node " + data.node_label(v) + " (row " + std::to_string(v) + ") are not all finite numbers",
                {.path = data.directory()});
    }
}

} // namespace trainers
