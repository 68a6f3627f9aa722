// ptx attend<.*, true, (true|false)>: ld.global.nc.v4
#include <gneiss/cuda/model/device/attention.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(
    &attention_terms<float>, &attention_terms<bfloat16>, &attend<float>, &attend<bfloat16>);

} // namespace gneiss::cuda
