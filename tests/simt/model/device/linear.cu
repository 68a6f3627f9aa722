// ptx multiply.*<float: mma.sync.aligned.m16n8k8.row.col.f32.tf32
// ptx multiply.*<gneiss::bfloat16: mma.sync.aligned.m16n8k16.row.col.f32.bf16
// ptx multiply.*<float: ld.global.nc.v4.f32
// ptx multiply.*<gneiss::bfloat16: ld.global.nc.v4.u16
#include <gneiss/cuda/model/device/linear.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&linear<float>, &linear<bfloat16>, &linear<float, float16>,
    &linear<float, bfloat16>, &linear_weight_gradient<float, float16>, &linear_weight_gradient<float, bfloat16>,
    &linear_input_gradient<float>, &linear_input_gradient<bfloat16>, &linear_weight_gradient<float>,
    &linear_weight_gradient<bfloat16>);

} // namespace gneiss::cuda
