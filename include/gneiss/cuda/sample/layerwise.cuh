// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/sample/batch.cuh>
#include <gneiss/cuda/sample/detail/number.cuh>
#include <gneiss/cuda/sample/graph.cuh>
#include <gneiss/cuda/sample/neighbor.cuh>
#include <gneiss/cuda/sample/node_numbers.cuh>
#include <gneiss/sample/layerwise.hpp>

namespace gneiss::cuda {

/// `gneiss::layerwise_sampler` on a device: the same sample, bit for bit, for the same seed, batch key, seed nodes,
/// graph and options; used as `neighbor_sampler`. The fan-out of a hop counts nodes, and all lists of the nodes known
/// so far are read, whole.
///
/// Room is for the lists of all nodes, those of the graph in the hop's directions, unless `sample_capacity::edges`
/// bounds the edges that a hop reads. Weighted sampling: host only.
/// Memory: that of `neighbor_sampler`, and for the largest hop an id for each edge that it reads and for each distinct
/// neighbor, and 8 bytes for each node known. Kernels and time: those of `neighbor_sampler`, and see
/// `detail::node_selection`.
/// Source: as `gneiss::layerwise_sampler`; Joestar's collective sampling (thesis, §5.1.2).
template <node_id_type NodeId = node_id>
class layerwise_sampler : public neighbor_sampler<NodeId> {
public:
    /// Parameters and errors: as `neighbor_sampler`; `invalid_argument` also for a graph with weights, and for options
    /// that `gneiss::layerwise_sampler` refuses.
    layerwise_sampler(memory_budget& budget, node_numbers& numbers, const graph_view<NodeId>& graph,
        neighbor_options options, std::uint64_t seed, const sample_capacity& capacity,
        source_lists wanted = source_lists::all)
        : neighbor_sampler<NodeId>(budget, numbers, graph,
              gneiss::layerwise_sampler<NodeId>(std::move(options), seed).options(), seed, capacity, wanted,
              detail::draws::together) {}
};

} // namespace gneiss::cuda
