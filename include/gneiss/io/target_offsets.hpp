// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/npy.hpp>

namespace gneiss {

/// Returns what to add to each column of the targets of regression, verified: columns that f32 would round too far are
/// stored without their means. Empty: nothing. Errors: errc::invalid_format for another type or shape, errc::corrupt,
/// io_error.
[[nodiscard]] inline std::vector<double> target_offsets(const dataset& data) {
    constexpr const char* name = "target_offsets";
    if (!data.has(name)) return {};
    const mapped_npy array = data.map(name);
    if (array.header().shape != std::vector<std::uint64_t>{data.manifest().node_attributes.classes})
        throw error(errc::invalid_format, "must have an entry for each column of the targets",
            {.path = data.path(name), .field = "shape"});
    const std::span<const double> offsets = array.elements<double>();
    data.checksums(name).verify(data.path(name), 0, std::as_bytes(offsets));
    return {offsets.begin(), offsets.end()};
}

} // namespace gneiss
