// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/command_line.hpp"

namespace armada {

/// Adds the command `model`: the throughput and price of a cluster, by given rates or those of a run.
void add_model(programs::command_line& to);

} // namespace armada
