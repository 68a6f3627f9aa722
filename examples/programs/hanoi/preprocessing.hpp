// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include <nlohmann/json.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>

#include "kit/run/open_run.hpp"
#include "kit/run/run_reporter.hpp"
#include "options.hpp"

namespace hanoi {

/// Inputs of preprocessing before training.
struct preprocessing {
    const options& how; ///< resolved, with the planned partitions
    const gneiss::dataset& from;
    const trainers::opened_run& run;
    std::uint64_t budget = 0; ///< bytes for the whole program
    gneiss::tbb_executor on;
    trainers::run_reporter& live;
    std::stop_token stop{};
};

/// The dataset that a run trains on, if it is the run's own, and the record of making it.
struct preprocessed {
    std::shared_ptr<const gneiss::dataset> data;
    nlohmann::ordered_json record; ///< the object "preprocessing" of run.json
};

/// Partitions the nodes, finds hubs, and reorders the rows, each step if the flags request it and no earlier process of
/// the run has done it. Output is in RUN/checkpoint: the dataset as `graph`; until then parts.npy with its journal and
/// hubs.npy; the steps done in preprocessing.json. The result does not depend on the point at which an earlier process
/// was killed.
///
/// Memory: the budget; half of it while rows are reordered. Throws over_budget, which names the largest number of hubs
/// that fits if the requested one does not; errc::canceled on a stop, after which the same run can resume.
[[nodiscard]] preprocessed preprocess(const preprocessing& of);

/// Returns the maximum memory of hubs if flags give no number [bytes]: their features, and the edges among them.
[[nodiscard]] constexpr std::uint64_t hub_share(std::uint64_t budget) noexcept { return budget / 4; }
/// Bytes of a hub in memory, and of a resident edge of a hub, in the stored directions.
struct hub_bytes {
    std::uint64_t node = 0, edge = 0;
};
[[nodiscard]] hub_bytes bytes_of_hubs(const options& how, const gneiss::dataset& data);

/// Throws over_budget, with the largest number that fits, if the features of the requested hubs alone exceed memory;
/// usage_error for a percentage that selects no nodes.
void check_hubs(const options& how, const gneiss::dataset& from, std::uint64_t budget);

} // namespace hanoi
