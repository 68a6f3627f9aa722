// ptx normalize<.*, true>: ld.global.nc.v4
// ptx normalize_back<.*, true>: ld.global.nc.v4
#include <gneiss/cuda/model/device/layer_norm.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(
    &layer_norm<float>, &layer_norm<bfloat16>, &layer_norm_backward<float>, &layer_norm_backward<bfloat16>);

} // namespace gneiss::cuda
