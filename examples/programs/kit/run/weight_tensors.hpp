// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/io/safetensors.hpp>
#include <gneiss/model/dense_parameters.hpp>

namespace trainers {

/// Name of the file of an export as tensors.
inline constexpr const char* tensors_name = "model.safetensors";

/// Returns the weights of a model as tensors "weights.NAME" of f32 [rows, columns], in the order of their numbers.
[[nodiscard]] std::vector<gneiss::tensor_entry> tensors_of(const gneiss::dense_parameters<>& weights);

/// Appends the elements of these tensors.
void append_weights(gneiss::safetensors_writer& to, const gneiss::dense_parameters<>& weights);

} // namespace trainers
