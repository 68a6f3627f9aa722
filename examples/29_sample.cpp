// Samples neighborhoods layer by layer, and as MariusGNN does: DENSE draws the neighbors of a node once.

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/generate/stream.hpp>
#include <gneiss/sample/dense.hpp>
#include <gneiss/sample/neighbor.hpp>

#include <algorithm>
#include <cstdio>
#include <vector>

int main() {
    using namespace gneiss;
    const planted_partition<> planted({.nodes = 5000, .edges = 100000, .communities = 8, .mixing = .1});
    generated_edges edges(planted, 1 << 16, serial_executor{});
    const csr_graph<> graph = make_csr_graph(edges, neighbor_direction::in);

    //! [sample]
    const neighbor_options options{.fanout = parse_fanout("10,5,5", neighbor_direction::in)}; // by hop, from the seeds
    neighbor_sampler<> by_layer(options, /*seed*/ 1);
    dense_sampler<> dense(options, /*seed*/ 1);
    mini_batch_arena arena, other, third; // memory of a sample, reused from batch to batch
    const std::vector<node_id> seeds{17, 42, 4999};
    const batch_key key{.epoch = 0, .number = {.state = 0, .pass = 0, .index = 3}};

    const neighbor_sample<> layered = by_layer.sample(key, graph, seeds, serial_executor{}, arena);
    const dense_sample<> once = dense.sample(key, graph, seeds, serial_executor{}, other);
    std::printf("layered: %zu edges among %zu nodes\n", layered.edges(), layered.nodes.size());
    std::printf("DENSE:   %zu edges among %zu nodes\n", once.edges(), once.node_ids.size());

    // A sample is a function of seed, key and graph: any thread or machine makes the same one.
    const neighbor_sample<> again = neighbor_sampler<>(options, 1).sample(key, graph, seeds, serial_executor{}, third);
    //! [sample]
    return once.edges() < layered.edges() && std::ranges::equal(layered.nodes, again.nodes) ? 0 : 1;
}
