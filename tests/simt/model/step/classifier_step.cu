// only spoil_gradient
#include <gneiss/cuda/model/step/classifier_step.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template __global__ void detail::spoil_gradient<1>(const classification_outcome*, float*);

} // namespace gneiss::cuda
