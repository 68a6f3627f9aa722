// SPDX-License-Identifier: Apache-2.0
#include "io_cost.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/io/calibrate.hpp>

#include "kit/cli/machine.hpp"
#include "kit/cli/units.hpp"
#include "kit/run/engine.hpp"

namespace hanoi {

std::optional<tier_rates> measure_tiers(
    const gneiss::dataset& data, const trainers::run_options& options, double row_bytes, std::uint64_t memory) {
    constexpr std::uint64_t needed = std::uint64_t{48} << 20;
    if (programs::current_rss() + needed > memory + options.outside.value_or(programs::memory_use{}).all)
        return std::nullopt;
    try {
        const gneiss::io_profile disk = trainers::read_rates(data, options);
        // A row is one request; its bytes count if they take longer.
        return tier_rates{.low = disk.bandwidth,
            .low_random = std::min(disk.bandwidth, disk.iops * row_bytes),
            .high = gneiss::copy_bandwidth(std::size_t{16} << 20, std::chrono::milliseconds(10))};
    } catch (const gneiss::error&) { // training will report a device that cannot be read
        return std::nullopt;
    }
}

io_cost cost_of(
    const io_counts& seen, const tier_rates& rates, double row_bytes, std::uint64_t cache_bytes, double miss_ratio) {
    const auto batches = static_cast<double>(seen.batches),
               macro_batches = static_cast<double>(std::max<std::uint64_t>(seen.macro_batches, 1));
    const double batch = (row_bytes * static_cast<double>(seen.input_rows) +
                             sizeof(gneiss::node_id) * static_cast<double>(seen.sampled_edges)) /
        batches;
    return {.model = {.batch = batch,
                .miss_ratio = miss_ratio,
                .staged_batch = batch,
                .macro_batch = static_cast<double>(seen.read_bytes) / macro_batches,
                .batches_of_it = batches / macro_batches},
        .rates = rates,
        .cache_bytes = cache_bytes,
        .seen = seen};
}

programs::named<double> io_cost::record() const {
    const auto batches = static_cast<double>(seen.batches);
    programs::named<double> result{{"batch_bytes", model.batch}, {"macro_batch_bytes", model.macro_batch},
        {"batches_of_macro_batch", model.batches_of_it}, {"cache_bytes", static_cast<double>(cache_bytes)},
        {"miss_ratio", model.miss_ratio}, {"low_bytes_per_second", rates.low},
        {"low_random_bytes_per_second", rates.low_random}, {"high_bytes_per_second", rates.high},
        {"single_stage_seconds", single()}, {"two_stage_seconds", staged()}};
    if (model.miss_ratio > 0) result.emplace_back("ratio", model.ratio()); // else one stage reads nothing
    result.emplace_back("measured_seconds", seen.seconds / batches);
    result.emplace_back("measured_wait_seconds", seen.wait_seconds / batches);
    return result;
}

std::string io_cost::text() const {
    const auto batches = static_cast<double>(seen.batches);
    const auto bytes = [](double x) { return gneiss::format_bytes(static_cast<std::uint64_t>(x)); };
    const auto time = [](double seconds) { return fmt::format("{:.3g} ms", seconds * 1e3); };
    return fmt::format("I/O of a batch by the model: {} from macro-batches; {} sampled from disk through a cache of {} "
                       "that misses {}{}. "
                       "Measured: {}, {} of it waiting for macro-batches; {} read for {} batches",
        time(staged()), time(single()), bytes(static_cast<double>(cache_bytes)),
        programs::human_percent(model.miss_ratio),
        model.miss_ratio > 0 ? fmt::format(", of whose bytes {} are read", programs::human_percent(model.ratio())) : "",
        time(seen.seconds / batches), time(seen.wait_seconds / batches), bytes(static_cast<double>(seen.read_bytes)),
        seen.batches);
}

} // namespace hanoi
