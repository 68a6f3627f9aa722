// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_setup.hpp>

#include "kit/run/device.hpp"

namespace trainers {

/// A part of training on a CUDA device.
template <class Parts>
struct on_cuda {
    Parts parts;
    bool keeps_scores = false; ///< rows are too wide for tiles: scores are in the device's memory, which is slower
};

// One unit: they instantiate the same kernels. They throw over_budget with the device's parts.
[[nodiscard]] device_network_parts classify_on_cuda(
    gneiss::memory_budget& budget, const gneiss::network_setup& network, const device_inputs& inputs);
[[nodiscard]] on_cuda<device_network_parts> predict_on_cuda(gneiss::memory_budget& budget,
    const gneiss::network_setup& network, const gneiss::decoder_setup& links, const device_inputs& inputs);
[[nodiscard]] on_cuda<gneiss::any_backend> embed_on_cuda(gneiss::memory_budget& budget,
    const gneiss::decoder_setup& links, const std::optional<gneiss::device_embeddings>& keep);

} // namespace trainers
