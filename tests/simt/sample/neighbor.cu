// ptx count_digits<.*>: ld.global.nc
// ptx draw_few<.*, false>: match.any.sync.b32
// ptx draw_few<.*>: atom.global.min.u64
// ptx move_by_digit<.*>: match.any.sync.b32
// shared draw_many<.*>: 131072
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>
#include <gneiss/cuda/sample/detail/draw.cuh>
#include <gneiss/cuda/sample/detail/excluded.cuh>
#include <gneiss/cuda/sample/detail/number.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>
#include <gneiss/cuda/sample/transpose.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template class neighbor_sampler<std::uint32_t>;
template class neighbor_sampler<std::uint64_t>;

} // namespace gneiss::cuda
