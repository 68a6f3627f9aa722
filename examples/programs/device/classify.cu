#include <gneiss/cuda/train/device_encoder_backend.cuh>

#include "device/backends.hpp"

namespace trainers {

gneiss::any_backend classify_on_cuda(gneiss::memory_budget& budget, const gneiss::network_setup& network, const gneiss::device_choices& choices) {
    return gneiss::any_backend(std::in_place_type<gneiss::cuda::device_node_backend>, budget, network, choices);
}

} // namespace trainers
