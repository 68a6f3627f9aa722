// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/train/any_slots.hpp>
#include <gneiss/train/device_setup.hpp>

namespace trainers {

/// A backend on a CUDA device.
struct cuda_backend {
    gneiss::any_backend backend;
    bool keeps_scores = false; ///< rows are too wide for tiles: scores are in the device's memory, which is slower
};

// One unit: they instantiate the same kernels. They throw over_budget with the device's parts.
[[nodiscard]] gneiss::any_backend classify_on_cuda(
    gneiss::memory_budget& budget, const gneiss::network_setup& network, const gneiss::device_choices& choices);
[[nodiscard]] cuda_backend predict_on_cuda(gneiss::memory_budget& budget, const gneiss::network_setup& network,
    const gneiss::decoder_setup& links, const gneiss::device_choices& choices);
[[nodiscard]] cuda_backend embed_on_cuda(gneiss::memory_budget& budget, const gneiss::decoder_setup& links,
    const std::optional<gneiss::device_embeddings>& keep);

} // namespace trainers
