#pragma once

#include <optional>

#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/calibrate.hpp>

#include "common/training/options.hpp"

namespace trainers {

/// The engine that `--io-engine` names, or the first that works here, slowed to `--throttle`.
[[nodiscard]] gneiss::engine_choice choose_engine(const run_options& options);

/// What the device does that a dataset lies on: measured once, on a dataset that is large enough to tell, and remembered in
/// its directory where that can be written, unless other work disturbed that or the run is dry. By the device itself, whatever `--throttle` says. Nothing for a small dataset.
[[nodiscard]] std::optional<gneiss::io_profile> device_profile(const gneiss::dataset& data, const run_options& options);

/// The same of any dataset as `--throttle` has it. One that is too small for a profile is told by a few reads, every time.
/// Throws io_error, errc::invalid_argument.
[[nodiscard]] gneiss::io_profile read_rates(const gneiss::dataset& data, const run_options& options);

} // namespace trainers
