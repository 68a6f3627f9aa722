// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <span>
#include <type_traits>
#include <utility>

#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/sample/detail/excluded_positions.hpp>
#include <gneiss/sample/mini_batch.hpp>

namespace gneiss {

/// Sampler adaptor that draws neighbors in proportion to edge weights; replaces `Sampler` anywhere.
///
///     const auto make = [&] { return weighted(neighbor_sampler<>(options, seed), weight); };
///     sampled_batches batches(task, topology, make, executor);
///     any_sampler sampler(graph, [=] { return weighted(dense_sampler<>(options, seed), weight); });
///
/// `weight(edge id)` is at least 0 and finite; edges of weight 0 are never sampled. Edge ids are those of the graph;
/// for a `graph_buffer`, the positions in the order of `bucket_store::for_each_edge`. The weight is copied into each
/// thread's sampler and called by several threads of the executor.
/// Cost: O(degrees of the visited nodes), as for weights in `Sampler`. Memory: for each thread 20 bytes per edge of the
/// longest list visited, at least 1.3 MB, beyond the bounds of trainers. Errors: those of `Sampler`; errc::not_finite
/// for a weight that is negative, infinite or NaN; errc::invalid_argument for a graph without edge ids.
template <class Sampler, class Weight>
class weighted {
    static_assert(
        std::is_invocable_r_v<float, const Weight&, edge_index>, "weighted: Weight must give the weight of an edge id");

public:
    /// Draws by `weight` with `sampler`.
    weighted(Sampler sampler, Weight weight) : sampler_(std::move(sampler)), weight_(std::move(weight)) {}

    /// Samples as `Sampler::sample`.
    template <neighbor_source G, executor E>
    auto sample(const batch_key& batch, const G& graph, std::span<const typename G::id_type> seeds, const E& executor,
        mini_batch_arena& arena, std::span<const excluded_edge<typename G::id_type>> excluded = {}) {
        return sampler_.sample(batch, graph, seeds, executor, arena, excluded, weight_);
    }

private:
    Sampler sampler_;
    Weight weight_;
};

} // namespace gneiss
