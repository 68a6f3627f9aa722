// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/calibrate.hpp>

#include "kit/run/options.hpp"

namespace trainers {

/// Returns the engine that `--io-engine` names, or the first that works here, throttled to `--throttle`.
[[nodiscard]] gneiss::engine_choice choose_engine(const run_options& options);

/// Returns the I/O profile of the device that holds a dataset. Measured once, on a dataset that is large enough, and
/// stored in its directory if that is writable, unless other work disturbed the measurement or the run is dry. Ignores
/// `--throttle`. Empty for a small dataset.
[[nodiscard]] std::optional<gneiss::io_profile> device_profile(const gneiss::dataset& data, const run_options& options);

/// Returns the I/O profile of any dataset, limited by `--throttle`. A dataset too small for a profile is measured by a
/// few reads, every time. Throws io_error, errc::invalid_argument.
[[nodiscard]] gneiss::io_profile read_rates(const gneiss::dataset& data, const run_options& options);

} // namespace trainers
