// only place_lists_of_hop|scatter_rows|name_nodes
// ptx scatter_rows<.*>: ld.global.nc.v4
#include <gneiss/cuda/train/device_macro_batch.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template __global__ void detail::place_lists_of_hop<256>(
    const std::uint32_t*, std::uint32_t, edge_index, std::uint64_t, edge_index*);
template __global__ void detail::scatter_rows<256>(
    const uint4*, const std::uint32_t*, std::uint64_t, std::uint64_t, uint4*);
template __global__ void detail::name_nodes<256>(
    const std::uint32_t*, const node_id*, const node_id*, const std::uint32_t*, node_id*, std::uint32_t*);

} // namespace gneiss::cuda
