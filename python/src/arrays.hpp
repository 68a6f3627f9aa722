// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <gneiss/core/types.hpp>

namespace gneiss_python {

/// Ids of nodes: rows of the dataset.
using id_array = nanobind::ndarray<const gneiss::node_id, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

[[nodiscard]] inline std::span<const gneiss::node_id> ids_of(const id_array& ids) { return {ids.data(), ids.shape(0)}; }

/// Returns memory of `owner` as an array of NumPy, which any library takes by DLPack; the owner lives as long.
template <class T>
[[nodiscard]] nanobind::object view_of(std::span<const T> values, nanobind::handle owner) {
    using array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;
    // Not read-only: libraries refuse such arrays.
    return nanobind::cast(array(const_cast<T*>(values.data()), {values.size()}, owner));
}

} // namespace gneiss_python
