// ptx step_rows<.*, true>: ld.global.cg.v4
#include <gneiss/cuda/model/device/optimizer.cuh>

#include <tuple>

namespace gneiss::cuda {

// Instantiations that the gate checks.
[[maybe_unused]] constexpr std::tuple gated(&step_rows<sgd, float>, &step_rows<adagrad, float>, &step_rows<adam, float>,
    &step_rows<sgd, bfloat16>, &step_rows<adagrad, bfloat16>, &step_rows<adam, bfloat16>, &step_dense<sgd>,
    &step_dense<adagrad>, &step_dense<adam>);

} // namespace gneiss::cuda
