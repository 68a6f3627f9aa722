// Definitions of gneiss::compiled: layer-wise inference on the CPU.
#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/model/cpu_encoder.hpp>

namespace gneiss {

template layerwise_plan plan_layerwise<eigen_backend>(const encoder<float, eigen_backend>&, const layerwise_input&,
    const row_partitioning&, const layerwise_edges&, const layerwise_options&, std::uint64_t, const bucket_store*);
template layerwise_plan plan_layerwise<eigen_backend>(const encoder<float, eigen_backend>&, const layerwise_input&,
    const bucket_store&, const layerwise_options&, std::uint64_t);
template layerwise_result infer_layerwise<eigen_backend>(encoder<float, eigen_backend>&, const dense_parameters<float>&,
    const layerwise_input&, const bucket_store&, const layerwise_options&, executor_ref, memory_budget&,
    const std::stop_token&, const layerwise_progress&);

} // namespace gneiss
