// architectures: 90a
// ptx sm_90a multiply_resident: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// ptx sm_90a multiply_resident: fence.proxy.async.shared::cta
// ptx multiply_resident: ld.global.nc.v4
#include <gneiss/cuda/model/device/linear_resident.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&linear_resident);

} // namespace gneiss::cuda
