// ptx copy_rows<.*, true>: ld.global.nc.v4
// ptx copy_rows<.*, true>: st.global.wb.v4
#include <gneiss/cuda/storage/copy_rows.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&gather_rows<float>, &gather_rows<bfloat16>, &assemble_rows<float>,
    &assemble_rows<bfloat16>, &update_slots<float>, &update_slots<bfloat16>);

} // namespace gneiss::cuda
