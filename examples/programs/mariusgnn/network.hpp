// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/dense_parameters.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/gnn/classifier.hpp"
#include "options.hpp"

namespace mariusgnn {

/// All trained parameters except node embeddings: the layers' weights, and for link prediction a decoder with its
/// relations.
class network {
public:
    /// Throws usage_error if the last layer's width is not the number of classes.
    network(const options& settings, const gneiss::dataset_manifest& graph);

    gneiss::dense_parameters<> weights;
    trainers::graph_encoder encode;
    std::optional<gneiss::any_link_model> links;
    gneiss::embedding_table relations;
    std::optional<bool>
        streams{}; ///< choice of the last inference that exceeded memory, so that the next need not count

    /// Initializes weights, relations and optimizer states.
    void initialize(const options& settings, const gneiss::tbb_executor& executor);
    /// Writes and reads a checkpoint's sections: values and optimizer states.
    void put(gneiss::checkpoint& to) const;
    void take(const gneiss::checkpoint& from);

    /// Returns a scorer with the trained relations. Precondition: the network predicts links.
    [[nodiscard]] gneiss::link_scorer scorer() const { return links->scorer(relations.values()); }
    /// Returns the bytes of weights with gradients and state, and of relations.
    [[nodiscard]] std::uint64_t bytes() const { return weights.size_bytes() + 2 * relations.size_bytes() + 4096; }
};

/// Returns the input columns of the first layer.
[[nodiscard]] gneiss::input_columns input_of(const options& settings, const gneiss::dataset_manifest& graph);

} // namespace mariusgnn
