// only begin_stages
#include <gneiss/cuda/model/step/encoder_batch.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template __global__ void detail::begin_stages<1>(
    detail::stage_counts, std::uint32_t, const std::uint32_t*, const random_key*, detail::stage_state*);

} // namespace gneiss::cuda
