// only keep_edges|sum_tiles<.*kept_edge|scan_sums<.*then_size
#include <gneiss/cuda/train/kept_edges.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template __global__ void detail::keep_edges<256, 8>(
    layer_view, detail::kept_edge, const std::uint32_t*, std::uint32_t*, std::uint32_t*, std::uint32_t*);
template __global__ void detail::sum_tiles<detail::kept_edge>(
    item_count, detail::kept_edge, std::uint32_t*, std::uint64_t*);
template __global__ void detail::scan_sums<detail::then_size>(
    item_count, std::uint64_t*, std::uint32_t*, detail::then_size);

} // namespace gneiss::cuda
