// ptx cross_entropy<.*, true>: ld.global.cg.v4
#include <gneiss/cuda/model/device/classify.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&softmax_cross_entropy<float>, &softmax_cross_entropy<bfloat16>);

} // namespace gneiss::cuda
