// ptx copy_drawn<.*>: atom.global.min.u64
// ptx count_ranks<.*>: atom.shared.add.u32
// only (begin_selection|see_known|list_candidates|count_ranks|choose_digit|place_lists|copy_drawn)(<.*>)?
#include <gneiss/cuda/sample/detail/select_nodes.cuh>
#include <gneiss/cuda/sample/layerwise.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template class neighbor_sampler<std::uint32_t>; // its base, which launches
template class neighbor_sampler<std::uint64_t>;
template class layerwise_sampler<std::uint32_t>;
template class layerwise_sampler<std::uint64_t>;

} // namespace gneiss::cuda
