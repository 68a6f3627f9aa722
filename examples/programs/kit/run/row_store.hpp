// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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

class warm_start;

/// Initial embeddings of the nodes: those of a run, of a file, or drawn.
struct embedding_init {
    gneiss::initializer values{};
    float state = 0; ///< initial optimizer state
    std::uint64_t seed = 0;
    const std::optional<std::filesystem::path>& file; ///< of --init
    const gneiss::dataset& data;
    warm_start* warm = nullptr;    ///< run of --warm-start; null: none
    std::uint64_t warm_memory = 0; ///< for its rows [bytes]
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
