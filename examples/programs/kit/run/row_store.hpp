// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/embedding/saved_rows.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/report/best_state.hpp"
#include "kit/run/options.hpp"
#include "kit/run/plan.hpp"
#include "kit/run/run_reporter.hpp"

namespace trainers {

/// Initial embeddings of the nodes.
struct embedding_init {
    gneiss::initializer values{};
    float state = 0; ///< initial optimizer state
    std::uint64_t seed = 0;
    std::span<const float> given{}; ///< [nodes, dim] instead of `values`, in the order of exports; empty: none
    const gneiss::dataset& data;
    /// Fills the file in place of `embedding_file::fill`, with values of another run and the given initial ones; empty:
    /// none.
    std::function<void(gneiss::embedding_file&, const std::function<void(std::uint64_t, gneiss::matrix_view<float>)>&)>
        warm{};
};

/// Creates the embedding file in the run's `checkpoint` directory. Throws errc::canceled on a stop.
[[nodiscard]] std::unique_ptr<gneiss::embedding_file> create_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const training_plan& plan, const embedding_init& begin, run_reporter& live,
    const gneiss::tbb_executor& executor, const std::stop_token& stop);

/// Opens the file with the slots that `saved` names, and as many as the plan needs. Throws errc::config_mismatch if the
/// plan has other rows; io_error.
[[nodiscard]] std::unique_ptr<gneiss::embedding_file> open_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const training_plan& plan, const gneiss::checkpoint& saved);
/// Opens the file for any plan, with at least `slots` slots. `stored` are the dataset's partitions.
[[nodiscard]] std::unique_ptr<gneiss::embedding_file> open_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const gneiss::row_partitioning& stored, const gneiss::checkpoint& saved,
    std::uint32_t slots = 0);

/// Returns the writer of a best state's rows: the current embeddings in `rows` without optimizer state, [nodes, dim].
/// Memory: one partition. The writer refers to the buffer.
[[nodiscard]] programs::row_writer best_rows(gneiss::partition_buffer& rows);

} // namespace trainers
