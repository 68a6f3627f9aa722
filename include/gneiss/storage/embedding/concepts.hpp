// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <gneiss/core/matrix_view.hpp>

namespace gneiss {

/// Called with consecutive rows: the id of the first, and the values [rows, dim], valid during the call.
using embedding_block_visitor = std::function<void(std::uint64_t first_row, matrix_view<const float> rows)>;

/// A table of embedding rows that can be streamed, in any store.
///
/// Meaning: `for_each_block` visits all rows once, in ascending order, in blocks whose bounds do not depend on the
/// store.
/// Cost: one sequential pass; memory for the blocks in flight.
template <class S>
concept embedding_stream = requires(S& s, const embedding_block_visitor& visit) {
    { s.rows() } -> std::convertible_to<std::uint64_t>;
    { s.dim() } -> std::convertible_to<std::size_t>;
    s.for_each_block(visit);
};

} // namespace gneiss
