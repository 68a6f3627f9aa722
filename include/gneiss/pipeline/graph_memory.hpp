#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/model/layer_options.hpp>
#include <gneiss/pipeline/graph_batch.hpp>
#include <gneiss/sample/fanout.hpp>

namespace gneiss {

/// The sizes that bound a batch of `graph_training`.
struct graph_shape {
    bool links = false;
    std::uint64_t nodes = 0; ///< that may be resident at once
    std::uint64_t edges = 0; ///< among them, counted once
    std::uint64_t all_nodes = 0; ///< resident or not; 0: unknown
    input_columns columns{};
    std::size_t learned = 0;          ///< of the dense columns
    std::uint64_t sparse_entries = 0; ///< of all nodes
};

/// Upper bounds [bytes].
struct graph_memory {
    std::uint64_t batch = 0;   ///< each batch in flight
    std::uint64_t sampler = 0; ///< scratch of each sampling thread
    std::uint64_t encoder = 0; ///< of the one that computes
};

/// What training needs at most: every node that is reached has its full fan-out of neighbours, all of them new, until all
/// nodes are reached. O(hops). DENSE samples are far smaller where neighbourhoods overlap.
[[nodiscard]] inline graph_memory bound_graph_memory(
    const graph_training_options& options, const graph_shape& of, std::span<const layer_options> layers) {
    const link_batch_bound links = of.links ? bound_link_batch(options.negatives, options.batch, of.nodes) : link_batch_bound{};
    const std::size_t hops = options.neighbours.fanout.size();
    std::vector<std::uint64_t> known{std::min(of.links ? links.nodes : options.batch, of.nodes)}; // after each hop
    std::vector<std::uint64_t> drawn;                                                             // edges of each hop
    std::uint64_t fresh = known[0], all_edges = 0, numbered = known[0]; // at once, before repetitions are found
    for (const hop_fanout& hop : options.neighbours.fanout) {
        const std::uint64_t asked = options.sampler == neighbour_sampling::dense ? fresh : known.back();
        const auto list = [&](std::uint32_t count, std::uint64_t most) { // < 2³² nodes, so that no product overflows
            if (count == all_neighbours) return most;
            return options.neighbours.replace ? asked * count : std::min(asked * count, most);
        };
        drawn.push_back(list(hop.in, of.edges) + list(hop.out, of.edges) + list(hop.both, 2 * of.edges));
        all_edges += drawn.back();
        numbered = std::max(numbered, known.back() + drawn.back());
        fresh = std::min(drawn.back(), of.nodes - known.back());
        known.push_back(known.back() + fresh);
    }
    if (of.all_nodes != 0) numbered = std::min(numbered, of.all_nodes);
    const std::uint64_t nodes = known.back(), seeds = known[0];
    std::uint64_t views = 0, encoder = 0;
    std::uint64_t inputs = of.columns.dense;
    std::size_t hop = hops;
    for (const layer_options& layer : layers) {
        const std::uint64_t sources = known[hop], outputs = layer.outputs();
        std::uint64_t edges = 0;
        if (layer.takes_hop() && hop > 0) {
            --hop;
            for (std::size_t h = options.sampler == neighbour_sampling::dense ? 0 : hop; h <= hop; ++h) edges += drawn[h];
        }
        views += 12 * edges + 8 * (sources + 1);
        encoder += sizeof(float) * (known[hop] * (4 * outputs + 2 * inputs) + sources * (3 * inputs + 2 * outputs) + edges * 6 * layer.gat.heads);
        inputs = outputs;
    }
    const std::uint64_t arrays = 8 * nodes + all_edges * (8U + (options.neighbours.relations ? 4U : 0U) + (options.neighbours.edge_ids ? 8U : 0U));
    const std::uint64_t dense = nodes * of.columns.dense * sizeof(float) * (of.learned != 0 ? 2 : 1);
    const std::uint64_t sparse = of.columns.sparse == 0 ? 0 : 8 * nodes + 8 * std::min(of.sparse_entries, nodes * of.columns.sparse);
    const std::uint64_t batch = links.bytes + arrays + views + dense + sparse + seeds * 8;
    return {.batch = batch + batch / 8 + 65536, // buffers grow by an eighth more than asked
        .sampler = 8 * std::bit_ceil(4 * numbered + 1024) + 32 * nodes + 24 * all_edges + 65536,
        .encoder = encoder + encoder / 8};
}

} // namespace gneiss
