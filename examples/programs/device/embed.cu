#include <memory>

#include <gneiss/cuda/train/device_embedding_backend.cuh>

#include "device/backends.hpp"

namespace trainers {

cuda_backend embed_on_cuda(gneiss::memory_budget& budget, const gneiss::decoder_setup& links, const std::optional<gneiss::device_embeddings>& keep) {
    auto made = std::make_shared<gneiss::cuda::device_embedding_backend>(budget, links, keep);
    const bool keeps_scores = made->path() == gneiss::cuda::link_path::scores;
    return {gneiss::any_backend(std::move(made)), keeps_scores};
}

} // namespace trainers
