// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/model/concepts.hpp>
#include <gneiss/model/link_scorer.hpp>

namespace gneiss {

/// Called with consecutive edges, valid during the call.
using edge_visitor = std::function<void(std::span<const edge>)>;

/// Scan of a set of edges: shows every edge to a visitor, in chunks of any size. Each call shows the same edges in the
/// same order. Repeated edges count once as known answers.
using edge_scan = std::function<void(const edge_visitor&)>;

/// Called with the candidates of one query: position of its edge, queried end, and node ids, valid during the call.
using candidate_visitor =
    std::function<void(std::size_t position, side target_side, std::span<const node_id> candidates)>;

/// List of candidates for each end of each edge; all lists together need not fit in memory.
///
/// Meaning: `size(position, target_side)` is the length of a list; 0 leaves that end unranked. `read(first, count,
/// visit)` shows the non-empty lists of edges [first, first + count), each once, in any order.
/// Cost: `size` O(1), `read` linear in its output. Called by one thread.
template <class S>
concept candidate_source = requires(S& source, std::size_t position, const candidate_visitor& visit) {
    { source.size(position, side::tail) } -> std::convertible_to<std::uint64_t>;
    source.read(position, position, visit);
};

/// Scores many queries against many candidate rows.
///
/// Meaning: `pack(rows, packed)` writes candidates [n, dim] in packed form to `packed_floats(n, dim)` floats.
/// `scores(compare, queries, packed, out, scratch)` writes out [m, n] for queries [m, dim], with `scratch_floats(m,
/// dim)` floats of scratch. For `inner_product` an element is ⟨q, x⟩, for `negative_distance` it is −‖q − x‖₂² (the
/// order is that of −‖q − x‖₂; `similarity_of` gives the score itself). An element depends only on its two rows, bit
/// for bit, not on the block or its position in it: equal rows tie, and blocks may be cut anywhere. Thread-safe. Cost:
/// m·n·dim multiply-adds, without allocation.
template <class K>
concept score_kernel = requires(const K& k, std::size_t n, std::size_t dim, matrix_view<const float> rows,
    std::span<float> packed, std::span<const float> candidates, matrix_view<float> out) {
    { k.packed_floats(n, dim) } -> std::same_as<std::size_t>;
    k.pack(rows, packed);
    { k.scratch_floats(n, dim) } -> std::same_as<std::size_t>;
    k.scores(similarity::inner_product, rows, candidates, out, packed);
};

/// Converts an element of a kernel's output to a similarity.
[[nodiscard]] inline float similarity_of(similarity compare, float element) noexcept {
    return compare == similarity::inner_product ? element : -std::sqrt(-element);
}

} // namespace gneiss
