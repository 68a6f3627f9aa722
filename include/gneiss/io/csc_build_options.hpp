// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include <gneiss/core/types.hpp>

namespace gneiss {

/// Options of building CSC files.
struct csc_build_options {
    std::uint64_t memory = std::uint64_t{256} << 20;                   ///< maximum bytes in use, without page cache
    std::stop_token stop{};                                            ///< ends the work with errc::canceled
    std::function<void(edge_index done, edge_index edges)> progress{}; ///< called occasionally; may be empty
};

} // namespace gneiss
