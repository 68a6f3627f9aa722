// ptx fused_scores_kernel<float: mma.sync.aligned.m16n8k8.row.col.f32.tf32
// ptx fused_gradients_kernel<gneiss::bfloat16: mma.sync.aligned.m16n8k16.row.col.f32.bf16
// ptx fused_.*_kernel<float: ld.global.nc.v4.f32
// ptx fused_.*_kernel<gneiss::bfloat16: ld.global.nc.v4.u16
// shared fused_.*_kernel<float, 64u>: 52224
// shared fused_.*_kernel<float, 128u>: 84992
// shared fused_.*_kernel<float, 256u>: 150528
// shared fused_.*_kernel<gneiss::bfloat16, 64u>: 27648
// shared fused_.*_kernel<gneiss::bfloat16, 128u>: 44032
// shared fused_.*_kernel<gneiss::bfloat16, 256u>: 76800
#include <gneiss/cuda/model/device/link_model.cuh>
#include <gneiss/cuda/model/device/link_tiles.cuh>
#include <gneiss/cuda/model/device/query_batch.cuh>
#include <gneiss/cuda/model/step/link_step.cuh>
#include <gneiss/model/decoder/complex.hpp>
#include <gneiss/model/decoder/distmult.hpp>
#include <gneiss/model/decoder/dot.hpp>
#include <gneiss/model/decoder/transe.hpp>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template class link_step<dot_decoder>;
template class link_step<distmult_decoder>;
template class link_step<complex_decoder>;
template class link_step<transe_decoder>;
template class link_step<complex_decoder, bfloat16>;

} // namespace gneiss::cuda
