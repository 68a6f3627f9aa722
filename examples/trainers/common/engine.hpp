#pragma once

#include <gneiss/storage/engine/probe.hpp>

#include "trainers/common/options.hpp"

namespace trainers {

/// The engine that `--io-engine` names, or the first that works here, slowed to `--throttle`.
[[nodiscard]] gneiss::engine_choice choose_engine(const run_options& how);

/// Throws errc::unsupported for a device that this build has no backend for.
void require_device(const run_options& how);

} // namespace trainers
