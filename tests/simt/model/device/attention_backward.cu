// ptx score_gradients<: ld.global.nc.v4
// ptx share_gradients<.*, true, (true|false)>: ld.global.nc.v4
#include <gneiss/cuda/model/device/attention_backward.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&attend_backward<float>, &attend_backward<bfloat16>);

} // namespace gneiss::cuda
