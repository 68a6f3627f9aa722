// What encoders and steps of classifiers launch beside the kernels that have gates of their own; and that nvcc takes them.
#include <gneiss/cuda/model/classifier_step.cuh>

namespace gneiss::cuda {

template __global__ void detail::begin_batch<1>(detail::stage_counts, std::uint32_t, const std::uint32_t*, const random_key*, detail::stage_state*);
template __global__ void detail::spoil_gradient<1>(const classification_outcome*, float*);

} // namespace gneiss::cuda
