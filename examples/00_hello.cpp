// Embeddings that stay on disk: 2 of 8 partitions are in memory at a time, and every edge is trained once an epoch.
#include <gneiss/link_prediction.hpp>

#include <cstdio>

int main() {
    std::vector<gneiss::edge> graph; // two relations that each lead from a node to one other
    for (gneiss::node_id v = 0; v < 2000; ++v)
        graph.insert(graph.end(), {{v, 0, (v * 7 + 1) % 2000}, {v, 1, (v * 11 + 5) % 2000}});

    gneiss::context run({.memory = 8 << 20}); // bytes: each part is charged before it is allocated
    const gneiss::bucketed_edges edges(graph, {.partitions = 8});
    gneiss::node_embeddings nodes(run, "hello.rows", edges.rows(), {.dim = 32, .overwrite = true});
    gneiss::link_trainer train(run, edges, nodes, gneiss::complex_decoder{}, {.resident = 2, .batch = 100});
    for (const auto& epoch : train.epochs(20))
        std::printf("loss %.3f, %zu KiB read\n", epoch.mean_loss(), std::size_t{epoch.io.read_bytes} / 1024);
    const double mrr = train.evaluate(graph).both().mrr();
    std::printf("MRR %.3f\n", mrr);
    return mrr > .5 ? 0 : 1;
}
