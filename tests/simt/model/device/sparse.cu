// ptx sparse_product<.*, true>: ld.global.nc.v4
// ptx sparse_product_tn<.*, true>: ld.global.nc.v4
#include <gneiss/cuda/model/device/sparse.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&sparse_multiply<float>, &sparse_multiply<bfloat16>,
    &sparse_weight_gradient<float>, &sparse_weight_gradient<bfloat16>);

} // namespace gneiss::cuda
