// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/model/input_columns.hpp>
#include <gneiss/model/input_rows.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>

#include "kit/cli/dataset_path.hpp"
#include "kit/cli/terminal.hpp"

namespace study {

/// Throws a usage error unless nodes have features and one class each, some train, and, if `tested`, some test.
inline void check_classes(const gneiss::dataset& data, bool tested) {
    const auto& nodes = data.manifest().node_attributes;
    const std::string at = data.directory().string();
    if (nodes.target != gneiss::node_target_kind::classes)
        throw programs::usage_error(
            fmt::format("{} has several labels per node, or numbers: this study needs classes", at));
    if (nodes.train == 0 || (tested && nodes.test == 0) || nodes.classes == 0 || nodes.features == 0)
        throw programs::usage_error(fmt::format(
            "{} needs features, classes{}", at, tested ? ", training and test nodes" : " and training nodes"));
}

/// Features and labels of a dataset in memory.
struct labeled_nodes {
    labeled_nodes(const gneiss::dataset& data, gneiss::memory_budget& budget, const std::stop_token& stop)
        : features(data.features()),
          labels(data.labels()),
          training(data.nodes_of(gneiss::node_split::train)),
          valid(data.nodes_of(gneiss::node_split::valid)),
          test(data.nodes_of(gneiss::node_split::test)),
          classes(static_cast<std::size_t>(data.manifest().node_attributes.classes)) {
        if (features.sparse()) features.normalize_rows(); // as trainers do
        store.emplace(features.files(), data.rows());
        gneiss::buffer_state all;
        for (gneiss::partition_id p = 0; p < data.rows().partitions; ++p) all.resident.push_back(p);
        const gneiss::epoch_plan states{std::move(all)};
        buffer.emplace(
            *store, [] { return gneiss::any_engine(gneiss::threads_engine{}); },
            gneiss::feature_buffer::need(states, *store).bytes, budget);
        buffer->begin_epoch(states);
        rows = buffer->acquire(0, stop);
    }

    /// Returns the columns that an encoder takes.
    [[nodiscard]] gneiss::input_columns columns() const {
        const auto count = static_cast<std::size_t>(rows->columns());
        return rows->sparse() ? gneiss::input_columns{.dense = 0, .sparse = count}
                              : gneiss::input_columns{.dense = count, .sparse = 0};
    }

    gneiss::node_features features;
    gneiss::mapped_array<std::int32_t> labels;
    std::vector<gneiss::node_id> training, valid, test;
    std::size_t classes;
    std::optional<gneiss::feature_store> store{};
    std::optional<gneiss::feature_buffer> buffer{};
    std::shared_ptr<const gneiss::resident_features> rows{}; ///< destroyed before the buffer
};

/// Features of the nodes of a batch.
struct gathered {
    gneiss::reusable_buffer<float> memory;
    gneiss::sparse_feature_rows sparse;

    [[nodiscard]] gneiss::input_rows<float> of(
        const gneiss::resident_features& rows, std::span<const gneiss::node_id> nodes, gneiss::executor_ref executor) {
        const auto columns = static_cast<std::size_t>(rows.columns());
        if (rows.sparse()) {
            rows.gather(executor, nodes, sparse);
            return {.dense = {nullptr, nodes.size(), 0},
                .sparse = {columns, sparse.offsets, sparse.columns, sparse.values}};
        }
        const gneiss::matrix_view<float> dense(memory.at_least(nodes.size() * columns), nodes.size(), columns);
        rows.gather(executor, nodes, dense);
        return {.dense = dense};
    }
};

} // namespace study
