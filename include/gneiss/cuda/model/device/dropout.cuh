// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/random.hpp>
#include <gneiss/cuda/device_api.cuh>
#include <gneiss/model/dropout.hpp>

namespace gneiss::cuda {

/// A `gneiss::dropout_mask` for kernels: drops the same elements. Values that change per batch are in device memory.
struct dropout_mask {
    dropout_rate rate{};                  ///< rate, as on the host
    const random_key* key = nullptr;      ///< null: no dropout
    const node_id* ids = nullptr;         ///< names of rows; null: `first` and following
    const std::uint32_t* size = nullptr;  ///< number of ids, from `begin` on
    std::uint64_t first = 0;              ///< name of row 0 without ids
    const std::uint32_t* begin = nullptr; ///< index of row 0's name; null: 0

    /// True unless nothing is dropped.
    [[nodiscard]] GNEISS_HD bool drops() const noexcept { return key != nullptr; }
    /// Returns the key of a row.
    [[nodiscard]] GNEISS_HD random_key row_key(std::uint32_t row) const noexcept {
        const std::uint32_t from = begin == nullptr ? 0 : *begin;
        if (ids == nullptr) return key->with(first + from + row);
        return key->with(logical_rows::name(ids + from, *size, 0, row));
    }
    /// Returns 0, or the factor of a kept element.
    [[nodiscard]] GNEISS_HD float scale_of(const random_key& row, std::uint64_t column) const noexcept {
        return rate.scale_of<float>(row, static_cast<std::size_t>(column));
    }
};

} // namespace gneiss::cuda
