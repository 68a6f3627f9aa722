// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/gnn/classifier.hpp"

namespace trainers {

/// All trained parameters except node embeddings: the layers' weights, and for link prediction a decoder with its
/// relations.
class network : public classifier {
public:
    /// \param of_links  flags of the decoder; null: the network is for tasks on nodes
    /// \param in        columns of the first layer
    /// Throws usage_error if the last layer's width is not the number of classes.
    network(const gnn_options& how, const link_options* of_links, const gneiss::input_columns& in,
        const gneiss::dataset_manifest& graph);

    std::optional<gneiss::any_link_model> links;
    gneiss::embedding_table relations;

    /// Initializes relations and their optimizer state.
    void initialize(const gnn_options& how, const link_options& of_links, const gneiss::tbb_executor& executor);
    void put(gneiss::checkpoint& to) const override;
    void take(const gneiss::checkpoint& from) override;

    /// Returns a scorer with the trained relations. Precondition: the network predicts links.
    [[nodiscard]] gneiss::link_scorer scorer() const { return links->scorer(relations.values()); }
    /// Returns the memory of weights with gradients and state, and of relations.
    [[nodiscard]] gneiss::memory_need need() const override {
        return {"weights", weights.size_bytes() + 2 * relations.size_bytes() + 4096};
    }
};

} // namespace trainers
