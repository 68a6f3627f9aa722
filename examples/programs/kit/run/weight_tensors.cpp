// SPDX-License-Identifier: Apache-2.0
#include "kit/run/weight_tensors.hpp"

namespace trainers {

std::vector<gneiss::tensor_entry> tensors_of(const gneiss::dense_parameters<>& weights) {
    std::vector<gneiss::tensor_entry> tensors;
    for (const auto& array : weights.arrays())
        tensors.push_back({"weights." + array.name, gneiss::tensor_dtype::f32, {array.rows, array.columns}});
    return tensors;
}

void append_weights(gneiss::safetensors_writer& to, const gneiss::dense_parameters<>& weights) {
    for (std::size_t i = 0; i < weights.arrays().size(); ++i) to.append(weights.list(i));
}

} // namespace trainers
