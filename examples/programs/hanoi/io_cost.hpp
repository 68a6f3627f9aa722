// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/multistage_cost.hpp>

#include "kit/report/records.hpp"
#include "kit/run/options.hpp"

namespace hanoi {

/// Rates of the two memory tiers: the dataset's device, and memory [bytes/s].
struct tier_rates {
    double low = 0;        ///< sequential reads
    double low_random = 0; ///< random reads of rows, counting only requested bytes
    double high = 0;       ///< copies
};

/// Measures memory briefly, and uses the known rates of the device (trainers::read_rates). Empty if the device cannot
/// be read,
/// or less than 48 MiB of `memory` are free. \param row_bytes  of a node's features
[[nodiscard]] std::optional<tier_rates> measure_tiers(
    const gneiss::dataset& data, const trainers::run_options& options, double row_bytes, std::uint64_t memory);

/// Counters of a process while it trained.
struct io_counts {
    std::uint64_t batches = 0;       ///< over all passes
    std::uint64_t macro_batches = 0; ///< trained on
    std::uint64_t input_rows = 0;    ///< requested by batches
    std::uint64_t sampled_edges = 0;
    std::uint64_t read_bytes = 0;
    double seconds = 0, wait_seconds = 0; ///< training time; its part waiting for macro-batches
};

/// I/O of a batch by the model of thesis §3.2, from observed macro-batches and batches, with the measurement.
struct io_cost {
    gneiss::multistage_cost model; ///< for the trained batches: `batch` and `staged_batch` are equal
    tier_rates rates;
    std::uint64_t cache_bytes = 0; ///< cache in front of the low tier that `miss_ratio` refers to
    io_counts seen;

    /// Equations (3.1) and (3.2) [s].
    [[nodiscard]] double single() const { return model.single({.low = rates.low_random, .high = rates.high}); }
    [[nodiscard]] double staged() const { return model.staged({.low = rates.low, .high = rates.high}); }

    /// Returns the record for run.json.
    [[nodiscard]] programs::named<double> record() const;
    /// Formats a line for display.
    [[nodiscard]] std::string text() const;
};

/// Returns the I/O cost. Precondition: at least one batch was trained.
/// \param cache_bytes  memory of the features of macro-batches and hubs, given to a static row cache instead
/// \param miss_ratio   of that cache
[[nodiscard]] io_cost cost_of(
    const io_counts& seen, const tier_rates& rates, double row_bytes, std::uint64_t cache_bytes, double miss_ratio);

} // namespace hanoi
