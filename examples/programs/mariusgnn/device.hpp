// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/train/any_slots.hpp>

#include "graph.hpp"
#include "kit/run/device.hpp"
#include "network.hpp"
#include "options.hpp"
#include "training_plan.hpp"

namespace mariusgnn {

/// Returns the backend that computes a plan's batches on `device`; null for the CPU, for which `device` is null too.
/// Throws over_budget if the device's memory is too small.
[[nodiscard]] std::optional<trainers::device_network_parts> backend_on(trainers::compute_device* device,
    const options& settings, const gneiss::training_plan& plan, const run_graph& graph, network& net,
    const gneiss::engine_factory& engines);

} // namespace mariusgnn
