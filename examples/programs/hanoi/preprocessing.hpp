#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include <nlohmann/json.hpp>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>

#include "common/terminal.hpp"
#include "options.hpp"
#include "common/training/open_run.hpp"

namespace hanoi {

/// What a run makes of its dataset before it trains.
struct preprocessing {
    const options& how; ///< resolved, and with the partitions that were planned
    const gneiss::dataset& from;
    const trainers::opened_run& run;
    std::uint64_t budget = 0; ///< bytes for all of the program
    gneiss::tbb_executor on;
    programs::progress& live;
    std::stop_token stop{};
};

/// The dataset that a run trains on, where that is one of its own, and what it took to make it.
struct preprocessed {
    std::shared_ptr<const gneiss::dataset> data;
    nlohmann::ordered_json record; ///< the object "preprocessing" of run.json
};

/// Gives nodes parts, finds hubs, and brings the rows in that order, each step where flags ask for it and an earlier process of
/// the run has not done it. What is made lies in RUN/checkpoint: the dataset as `graph`; until it is there parts.npy with its
/// journal and hubs.npy; what was done in preprocessing.json. The result does not depend on where an earlier process was killed.
///
/// Memory: the budget, of which half while rows are brought in order. Throws over_budget, which names the most hubs that
/// fit where those that were asked for do not; errc::canceled on a stop, after which the same run goes on.
[[nodiscard]] preprocessed preprocess(const preprocessing& of);

/// What may be pinned as hubs at most where flags do not say how many [bytes]: their features, and the edges among them.
[[nodiscard]] constexpr std::uint64_t hub_share(std::uint64_t budget) noexcept { return budget / 4; }
/// What a hub takes in memory, and an edge of a hub that is there, in the directions that are kept [bytes].
struct hub_bytes {
    std::uint64_t node = 0, edge = 0;
};
[[nodiscard]] hub_bytes bytes_of_hubs(const options& how, const gneiss::dataset& data);

/// Throws over_budget, with the most that fit, for hubs that flags ask for and whose features alone do not fit beside the program;
/// usage_error for a share that is none of the nodes.
void check_hubs(const options& how, const gneiss::dataset& from, std::uint64_t budget);

} // namespace hanoi
