#include <memory>

#include <gneiss/cuda/train/device_encoder_backend.cuh>

#include "device/backends.hpp"

namespace trainers {

cuda_backend predict_on_cuda(gneiss::memory_budget& budget, const gneiss::network_setup& network, const gneiss::decoder_setup& links,
    const gneiss::device_choices& choices) {
    auto made = std::make_shared<gneiss::cuda::device_link_backend>(budget, network, links, choices);
    const bool keeps_scores = made->path() == gneiss::cuda::link_path::scores;
    return {gneiss::any_backend(std::move(made)), keeps_scores};
}

} // namespace trainers
