// SPDX-License-Identifier: Apache-2.0
#include "kit/run/engine.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/engine/throttled.hpp>

#include "kit/cli/dataset_path.hpp"
#include "kit/cli/io_engines.hpp"

namespace trainers {

gneiss::engine_choice choose_engine(const run_options& options) {
    gneiss::engine_choice chosen = gneiss::choose_engine(options.io_engine, programs::io_engine_candidates());
    if (options.throttle) {
        const gneiss::throttle_options slow{
            .bytes_per_second = static_cast<double>(std::max<std::uint64_t>(options.throttle->bytes, 1))};
        const auto device = std::make_shared<gneiss::throttled_device<>>(slow);
        chosen.make = [make = chosen.make, device] {
            return gneiss::any_engine(gneiss::throttled<gneiss::any_engine>(make(), device));
        };
        chosen.reason += "; throttled to " + gneiss::format_bytes(options.throttle->bytes) + "/s";
    }
    return chosen;
}

std::optional<gneiss::io_profile> device_profile(const gneiss::dataset& data, const run_options& options) {
    constexpr std::uint64_t enough = std::uint64_t{32} << 20;
    const std::filesystem::path file = data.path("edges.out"), known = data.directory() / programs::device_profile_name;
    if (std::filesystem::file_size(file) < enough) return std::nullopt;
    try {
        return gneiss::load_profile(known);
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): missing, or of another version
    }
    run_options unthrottled = options;
    unthrottled.throttle.reset();
    const gneiss::io_profile measured = gneiss::calibrate(choose_engine(unthrottled).make, file);
    if (measured.steady() && !options.dry_run) {
        try {
            gneiss::save_profile(known, measured);
        } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): measured again next time
        }
    }
    return measured;
}

gneiss::io_profile read_rates(const gneiss::dataset& data, const run_options& options) {
    gneiss::io_profile found;
    if (const auto known = device_profile(data, options)) {
        found = *known;
    } else {
        run_options unthrottled = options;
        unthrottled.throttle.reset();
        found = gneiss::calibrate(
            choose_engine(unthrottled).make, data.path("edges.out"), {.time = std::chrono::milliseconds(0)});
    }
    if (options.throttle) {
        const auto most = static_cast<double>(std::max<std::uint64_t>(options.throttle->bytes, 1));
        found.bandwidth = std::min(found.bandwidth, most);
        found.iops = std::min(found.iops, most / static_cast<double>(gneiss::throttle_options{}.block_bytes));
    }
    return found;
}

} // namespace trainers
