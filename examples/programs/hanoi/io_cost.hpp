#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <gneiss/io/dataset.hpp>
#include <gneiss/order/multistage_cost.hpp>

#include "common/records.hpp"
#include "common/training/options.hpp"

namespace hanoi {

/// What the two tiers of memory do: the dataset's device, and memory [bytes/s].
struct tier_rates {
    double low = 0;        ///< sequential reads
    double low_random = 0; ///< rows read one by one, as far as they are wanted
    double high = 0;       ///< copies
};

/// Measures memory for a moment, and takes what is known of the device (trainers::read_rates). Empty where that cannot be
/// read, or less than 48 MiB of `memory` are free. \param row_bytes  of a node's features
[[nodiscard]] std::optional<tier_rates> measure_tiers(
    const gneiss::dataset& data, const trainers::run_options& options, double row_bytes, std::uint64_t memory);

/// What a process counted while it trained.
struct io_counts {
    std::uint64_t batches = 0;       ///< of all passes
    std::uint64_t macro_batches = 0; ///< trained on
    std::uint64_t input_rows = 0;    ///< that batches asked for
    std::uint64_t sampled_edges = 0;
    std::uint64_t read_bytes = 0;
    double seconds = 0, wait_seconds = 0; ///< of training; in it, waiting for macro-batches
};

/// The I/O of a batch by the model of thesis §3.2, from what macro-batches and their batches were, beside what was measured.
struct io_cost {
    gneiss::multistage_cost model; ///< of the batches that were trained: `batch` and `staged_batch` are the same
    tier_rates rates;
    std::uint64_t cache_bytes = 0; ///< of the cache before the low tier that `miss_ratio` is of
    io_counts seen;

    /// Equations (3.1) and (3.2) [s].
    [[nodiscard]] double single() const { return model.single({.low = rates.low_random, .high = rates.high}); }
    [[nodiscard]] double staged() const { return model.staged({.low = rates.low, .high = rates.high}); }

    /// For run.json.
    [[nodiscard]] programs::named<double> record() const;
    /// A line for people.
    [[nodiscard]] std::string text() const;
};

/// Precondition: there were batches.
/// \param cache_bytes  memory of the features of macro-batches and hubs, that a static cache of rows would have instead
/// \param miss_ratio   of that cache
[[nodiscard]] io_cost cost_of(const io_counts& seen, const tier_rates& rates, double row_bytes, std::uint64_t cache_bytes, double miss_ratio);

} // namespace hanoi
