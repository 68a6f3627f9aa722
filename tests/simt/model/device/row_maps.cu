// ptx map_rows<.*, true, .*>: st.global.wb.v4
#include <gneiss/cuda/model/device/row_maps.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&dropout<float>, &dropout<bfloat16>, &gather_rows<float>,
    &gather_rows<bfloat16>, &gather_rows<float, float16>, &gather_rows<float, bfloat16>, &gather_tiers<float>,
    &gather_tiers<float16>, &gather_tiers<bfloat16>, &gather_cached<float>, &gather_cached<float16>,
    &gather_cached<bfloat16>, &keep_cached, &add_rows<float, float16>, &add_rows<float, bfloat16>, &add_rows<float>,
    &add_rows<bfloat16>, &add_rows_backward<float>, &add_rows_backward<bfloat16>, &bias_activate<float>,
    &bias_activate<bfloat16>, &activate_backward<float>, &activate_backward<bfloat16>, &head_mean<float>,
    &head_mean<bfloat16>, &head_mean_backward<float>, &head_mean_backward<bfloat16>);

} // namespace gneiss::cuda
