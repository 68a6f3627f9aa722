#include <gneiss/cuda/model/device/partial_sums.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&add_column_sums<float>, &add_column_sums<bfloat16>);

} // namespace gneiss::cuda
