// SPDX-License-Identifier: Apache-2.0
#include "device/backends.hpp"

#include <memory>

#include <gneiss/cuda/train/device_embedding_backend.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>

namespace trainers {

gneiss::any_backend classify_on_cuda(
    gneiss::memory_budget& budget, const gneiss::network_setup& network, const gneiss::device_choices& choices) {
    return gneiss::any_backend(std::in_place_type<gneiss::cuda::device_node_backend>, budget, network, choices);
}

cuda_backend predict_on_cuda(gneiss::memory_budget& budget, const gneiss::network_setup& network,
    const gneiss::decoder_setup& links, const gneiss::device_choices& choices) {
    auto made = std::make_shared<gneiss::cuda::device_link_backend>(budget, network, links, choices);
    const bool keeps_scores = made->path() == gneiss::cuda::link_path::scores;
    return {gneiss::any_backend(std::move(made)), keeps_scores};
}

cuda_backend embed_on_cuda(gneiss::memory_budget& budget, const gneiss::decoder_setup& links,
    const std::optional<gneiss::device_embeddings>& keep) {
    auto made = std::make_shared<gneiss::cuda::device_embedding_backend>(budget, links, keep);
    const bool keeps_scores = made->path() == gneiss::cuda::link_path::scores;
    return {gneiss::any_backend(std::move(made)), keeps_scores};
}

} // namespace trainers
