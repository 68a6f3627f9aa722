// ptx stack_edges<.*>: st.global.wb
// shared draw_many<.*>: 131072
#include <gneiss/cuda/sample/dense.cuh>
#include <gneiss/cuda/sample/detail/stack.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template class dense_sampler<std::uint32_t>;
template class dense_sampler<std::uint64_t>;

} // namespace gneiss::cuda
