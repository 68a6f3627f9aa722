// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/storage/engine/probe.hpp>

namespace programs {

/// Returns the I/O engines of this build for `gneiss::choose_engine`, the preferred one first.
[[nodiscard]] std::vector<gneiss::engine_candidate> io_engine_candidates();

} // namespace programs
