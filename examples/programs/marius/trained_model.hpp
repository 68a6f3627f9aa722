// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include <gneiss/io/dataset.hpp>
#include <gneiss/model/any_link_model.hpp>
#include <gneiss/model/embedding_table.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/run/run_flags.hpp"
#include "options.hpp"

namespace marius {

/// A trained run, opened read-only.
class trained_model {
public:
    /// Reads the run's configuration and its best state, or the last one if none was kept. Throws errc::not_found if
    /// there is none. Embeddings are charged to `memory` [bytes]; throws gneiss::over_budget. `moved` as in
    /// `open_trained`.
    trained_model(
        const std::filesystem::path& run, std::uint64_t memory, const std::optional<std::filesystem::path>& moved);

    /// Returns a scorer with the trained relations.
    [[nodiscard]] gneiss::link_scorer scorer() const { return model->scorer(relations.values()); }

    options how;
    trainers::run_state state;
    std::unique_ptr<gneiss::dataset> data;
    std::unique_ptr<gneiss::bucket_store> buckets;
    gneiss::checkpoint saved;
    std::optional<gneiss::any_link_model> model;
    gneiss::embedding_table relations;
    std::unique_ptr<gneiss::embedding_file> embedding_file;
    gneiss::memory_budget budget;
    std::unique_ptr<gneiss::partition_buffer> rows; ///< two partitions at a time
};

} // namespace marius
