// ptx aggregate.*<.*, true>: ld.global.nc.v4
// ptx aggregate<.*, true>: st.global.wb.v4
// ptx aggregate_max<.*, true>: st.global.wb.v4
#include <gneiss/cuda/model/device/aggregate.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&aggregate<float>, &aggregate<bfloat16>, &aggregate<float, float16>,
    &aggregate<float, bfloat16>, &aggregate_max<float, float16>, &aggregate_max<float, bfloat16>, &aggregate_max<float>,
    &aggregate_max<bfloat16>, &aggregate_max_backward<float>, &aggregate_max_backward<bfloat16>);

} // namespace gneiss::cuda
