// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>

#include "kit/run/run_events.hpp"
#include "kit/run/run_result.hpp"
#include "options.hpp"

namespace armada {

/// Trains a GNN for node classification from the batches of workers, all in this process.
/// This is `gneiss-armada train` as a function, see `trainers::run_trainer`.
[[nodiscard]] trainers::run_result train(
    const options& flags, trainers::run_events events = {}, const std::stop_token& stop = {});

} // namespace armada
