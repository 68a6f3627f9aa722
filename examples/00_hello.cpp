// Embeddings that stay on disk: 2 of 8 partitions are in memory at a time, and every edge is trained once an epoch.
#include <gneiss/gneiss.hpp>
#include <gneiss/train/embedding_trainer.hpp>

#include <cstdio>
#include <map>
using namespace gneiss;

int main() {
    const row_partitioning nodes{.nodes = 2000, .partitions = 8};
    const row_layout row{.dim = 32, .state = 32}; // the values, and beside them Adagrad's sums of squares
    std::map<edge_bucket, std::vector<edge>> graph; // two relations that each lead from a node to one other
    for (node_id v = 0; v < nodes.nodes; ++v)
        for (const edge e : {edge{v, 0, (v * 7 + 1) % 2000}, edge{v, 1, (v * 11 + 5) % 2000}})
            graph[{nodes.of(e.source), nodes.of(e.destination)}].push_back(e);
    const edge_loader source{.size = [&](edge_bucket b) { return graph[b].size(); },
        .load = [&](edge_bucket b, std::span<edge> to) { std::ranges::copy(graph[b], to.begin()); }};
    const engine_factory engines = [] { return any_engine(threads_engine{}); }; // or uring_engine
    any_engine engine = engines();
    embedding_file::create(engine, "hello.rows", nodes, row, /*spare slots*/ 8);
    embedding_file rows(engines, "hello.rows", nodes, row, 8);
    const tbb_executor executor;
    rows.fill([&](std::uint64_t first, matrix_view<float> to) { // first values depend on seed and node only
        initialize_rows(initializer::normal(0, .1F), 0, /*seed*/ 1, embedding_kind::nodes, first, row.dim, to, executor);
    });
    embedding_table relations(2, row);
    initialize_rows(initializer::uniform(-1, 1), 0, 1, embedding_kind::relations, 0, row.dim, relations.table(), executor);

    memory_budget budget(8 << 20); // each part is charged before it is allocated
    partition_buffer buffer(rows, {.resident_partitions = 2, .prefetch = 1}, budget);
    edge_buffer edges(source, nodes.partitions, /*keep*/ false, 1 << 20, budget);
    any_link_model model = make_link_model("complex", "softmax", row.dim);
    embedding_trainer training({.batch_edges = 100, .negatives = {.per_chunk = 100, .chunks = 1}}, model,
        adagrad{.rate = .2F}, buffer, edges, relations, executor, budget);
    const beta_order order(nodes.partitions, /*resident*/ 2, /*seed*/ 1);
    double loss[20];
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
        loss[epoch] = training.run(order(epoch), epoch).model.loss / 4000;
        std::printf("loss %.3f an edge, %zu KiB read\n", loss[epoch], std::size_t{rows.statistics().read_bytes} / 1024);
    }
    return loss[19] < loss[0] / 2 ? 0 : 1;
}
