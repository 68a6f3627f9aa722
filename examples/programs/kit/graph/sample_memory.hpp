// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include <gneiss/io/manifest.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/train/gnn_memory.hpp>

namespace programs {

/// Returns the memory of a sample of a whole graph's training edges, and of its sampler [bytes].
[[nodiscard]] inline std::uint64_t sample_memory(const gneiss::dataset_manifest& graph, gneiss::sampler_kind kind,
    const gneiss::neighbor_options& neighbors, std::uint64_t batch) {
    gneiss::gnn_options sizes;
    sizes.batch = batch;
    sizes.neighbors = neighbors;
    sizes.sampler = kind;
    const gneiss::gnn_memory bound =
        gneiss::bound_gnn_memory(sizes, {.nodes = graph.nodes, .edges = graph.train_edges, .all_nodes = graph.nodes},
            std::span<const gneiss::layer_options>{});
    return bound.batch.sample + bound.sampler;
}

} // namespace programs
