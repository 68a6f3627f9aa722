// SPDX-License-Identifier: Apache-2.0
// The encoder of a GNN on the CPU, whole: `cpu_encoder` and its layers, which gneiss::compiled holds.
#pragma once

#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/encoder.hpp>

#ifdef GNEISS_COMPILED
namespace gneiss {
extern template class encoder<float, eigen_backend>;
extern template class any_layer_factory<float, eigen_backend>;
extern template class gat_layer<float, eigen_backend>;
extern template class gcn_layer<float, eigen_backend>;
extern template class linear_layer<float, eigen_backend>;
extern template class sage_layer<float, eigen_backend>;
} // namespace gneiss
#endif
