// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/feature_diagnosis.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gneiss/core/error.hpp>
#include <gneiss/io/import/feature_scale.hpp>

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
                "the features of node " + data.node_label(v) + " (row " + std::to_string(v) +
                    ") are not all finite numbers",
                {.path = data.directory()});
    }
}

std::string doubt_features(const gneiss::dataset& data, const gneiss::node_features& features) {
    constexpr std::uint64_t most_rows = 256;
    constexpr double large = 30; // initial weights expect inputs of about 1
    if (features.sparse() || features.rows() == 0) return {};
    gneiss::importing::column_moments columns;
    std::vector<float> row(static_cast<std::size_t>(features.columns()));
    const std::uint64_t count = std::min(features.rows(), most_rows);
    for (std::uint64_t i = 0; i < count; ++i) {
        features.read_dense(i * features.rows() / count, row);
        columns.add(std::span<const float>(row));
    }
    const std::vector<double> means = columns.means(), deviations = columns.deviations();
    for (std::size_t c = 0; c < means.size(); ++c)
        if (std::abs(means[c]) > large || deviations[c] > large)
            return fmt::format("column {} of the features has mean {:.4g} and standard deviation {:.4g}: layers train "
                               "poorly on values "
                               "far from 0; import {} again with --standardize FILE",
                c, means[c], deviations[c], data.manifest().name);
    return {};
}

} // namespace trainers
