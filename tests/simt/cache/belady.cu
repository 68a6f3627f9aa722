// only for_each.*gneiss::cuda::detail::
#include <gneiss/cuda/cache/belady.cuh>

#include <gneiss/cuda/core/stream_allocator.cuh>

#include <thrust/system/cuda/execution_policy.h>

namespace gneiss::cuda {

// Instantiations that the gate checks: Thrust kernels with functions defined here. The tuning of other kernels is
// Thrust's.
using policy = decltype(thrust::cuda::par_nosync(std::declval<stream_allocator&>()).on(cudaStream_t{}));
template belady_sets belady<policy>(
    const policy&, const thrust::device_vector<node_id>&, std::span<const std::uint32_t>, const belady_options&);

} // namespace gneiss::cuda
