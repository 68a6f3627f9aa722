// only for_each.*gneiss::cuda::detail::
#include <gneiss/cuda/cache/belady.cuh>

#include <gneiss/cuda/core/pool_allocator.cuh>

#include <thrust/system/cuda/execution_policy.h>

namespace gneiss::cuda {

// What is instantiated, and of it goes through the gate: kernels that Thrust makes of functions that are here. How others
// are tuned is its own.
using policy = decltype(thrust::cuda::par_nosync(std::declval<pool_allocator&>()).on(cudaStream_t{}));
template belady_sets belady<policy>(const policy&, const thrust::device_vector<node_id>&, std::span<const std::uint32_t>, const belady_options&);

} // namespace gneiss::cuda
