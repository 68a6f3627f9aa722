// only mark_halo|count_reads|exchange_rows|clear_halo|set_slots
#include <gneiss/cuda/train/detail/history_rows.cuh>

namespace gneiss::cuda {

// Instantiations that the gate checks.
template __global__ void detail::mark_halo<256>(detail::history_batch, const layer_counts*, const std::uint32_t*,
    std::uint32_t, detail::history_tally*, std::uint8_t*);
template __global__ void detail::count_reads<256>(detail::history_batch, const layer_counts*, const std::uint32_t*,
    const std::uint8_t*, std::uint32_t*, std::uint64_t, detail::history_tally*);
template __global__ void detail::exchange_rows<float, 256>(
    detail::history_batch, detail::history_rows, detail::history_table<float>, detail::history_tally*);
template __global__ void detail::exchange_rows<float16, 256>(
    detail::history_batch, detail::history_rows, detail::history_table<float16>, detail::history_tally*);
template __global__ void detail::clear_halo<256>(detail::history_rows);
template __global__ void detail::set_slots<256>(const node_id*, const std::uint32_t*, std::uint32_t, std::uint32_t*);

} // namespace gneiss::cuda
