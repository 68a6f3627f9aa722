// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <stop_token>

#include "kit/cli/diagnosis.hpp"
#include "kit/cli/machine_rates.hpp"

namespace data_tool {

/// Returns the rates of this machine with those of a disk: imports generated graphs into `directory`, trains on them by
/// the programs next to this one, and removes them. Without gneiss-mariusgnn there, rates of GNNs stay unknown. Takes a
/// few seconds on all CPUs, and some 60 MB of the disk. Throws gneiss::io_error, errc::canceled; errc::io with what a
/// trainer says.
[[nodiscard]] programs::machine_rates measure_rates(
    const std::filesystem::path& directory, const programs::disk_rates& disk, const std::stop_token& stop);

} // namespace data_tool
