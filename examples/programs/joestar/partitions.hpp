// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>

#include "kit/run/run_reporter.hpp"
#include "options.hpp"

namespace joestar {

/// Partitions of the nodes of a run with --first-stage pbs.
struct node_partitions {
    std::shared_ptr<const std::vector<std::uint16_t>> of{}; ///< [nodes] by row
    std::uint32_t count = 0;
    bool made = false; ///< by this process: the run keeps them
};

/// Returns the partitions that the flags name: of a file, of the run to be resumed, of the dataset, or made by GAP.
/// Those depend on graph, labels, seed and number alone. Throws usage_error for --macro of more; over_budget; errors of
/// the file, which names a partition that does not exist for a node.
[[nodiscard]] node_partitions partitions_of(const options& how, const gneiss::dataset& data,
    const gneiss::tbb_executor& executor, trainers::run_reporter& live, const std::stop_token& stop);
/// Writes partitions that were made into a run's `checkpoint` directory.
void keep_partitions(
    const gneiss::dataset& data, const node_partitions& parts, const std::filesystem::path& checkpoint);

} // namespace joestar
