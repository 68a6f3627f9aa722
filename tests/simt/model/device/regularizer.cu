#include <gneiss/cuda/model/device/regularizer.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&add_penalty<float>, &add_penalty<bfloat16>);

} // namespace gneiss::cuda
