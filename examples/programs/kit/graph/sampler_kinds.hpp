// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <gneiss/sample/any_sampler.hpp>

namespace programs {

/// Returns the sampler of a value of `--sampler`.
[[nodiscard]] constexpr gneiss::sampler_kind sampler_named(std::string_view flag) {
    return flag == "dense"    ? gneiss::sampler_kind::dense
        : flag == "layerwise" ? gneiss::sampler_kind::layerwise
                              : gneiss::sampler_kind::neighbor;
}

} // namespace programs
