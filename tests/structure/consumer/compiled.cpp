#include <gneiss/link_prediction.hpp>
#include <gneiss/node_classification.hpp>

#ifndef GNEISS_COMPILED
#error "gneiss::compiled sets GNEISS_COMPILED"
#endif

#include <filesystem>
#include <vector>

// A custom decoder that is not among those of the library.
struct own_decoder : gneiss::distmult_decoder {};

template <class Decoder>
bool trains(Decoder decode) {
    std::vector<gneiss::edge> graph;
    for (gneiss::node_id v = 0; v < 100; ++v) graph.push_back({v, 0, (v * 7 + 1) % 100});
    gneiss::context run;
    const gneiss::bucketed_edges edges(graph, {.partitions = 2});
    gneiss::node_embeddings nodes(run, "compiled.rows", edges.rows(), {.dim = 8, .overwrite = true});
    gneiss::link_trainer train(run, edges, nodes, decode, {.batch = 50});
    return train.train_epoch().model.examples == graph.size();
}

int main() {
    try {
        gneiss::context run;
        const gneiss::dataset none("not there");
        const gneiss::node_classifier train(run, none);
        return 1;
    } catch (const gneiss::io_error&) {
    }
    const bool trained = trains(gneiss::dot_decoder{}) && trains(own_decoder{});
    std::filesystem::remove("compiled.rows");
    return trained ? 0 : 1;
}
