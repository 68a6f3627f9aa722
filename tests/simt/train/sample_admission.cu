// only admit_sample
#include <gneiss/cuda/train/sample_admission.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template __global__ void detail::admit_sample<1>(sample_admission);

} // namespace gneiss::cuda
