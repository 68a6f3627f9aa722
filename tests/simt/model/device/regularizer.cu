#include <gneiss/cuda/model/device/regularizer.cuh>

#include <tuple>

namespace gneiss::cuda {

// What is instantiated, and so goes through the gate.
[[maybe_unused]] constexpr std::tuple gated(
    &add_penalty<float>, &add_penalty<bfloat16>);

} // namespace gneiss::cuda
