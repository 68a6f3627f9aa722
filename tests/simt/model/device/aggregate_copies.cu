// ptx sm_90 aggregate_by_copies: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// ptx sm_90 aggregate_by_copies: mbarrier.try_wait.parity
// ptx sm_80 aggregate_by_copies: cp.async.cg.shared.global
// ptx aggregate_by_copies: st.global.wb.v4
#include <gneiss/cuda/model/device/aggregate_copies.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(static_cast<void (*)(cudaStream_t, const edge_lists&, edge_weight,
                                                rows_view<const float>, rows_view<float>, row_path)>(&aggregate<float>),
    static_cast<void (*)(cudaStream_t, const edge_lists&, edge_weight, rows_view<const bfloat16>, rows_view<bfloat16>,
        row_path)>(&aggregate<bfloat16>));

} // namespace gneiss::cuda
