// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace mariusgnn {

/// Trains a GNN for link prediction or node classification on the partitions of a buffer.
/// This is `gneiss-mariusgnn train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace mariusgnn
