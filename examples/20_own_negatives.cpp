// Negatives of one's own: in proportion to degree^¾, as word2vec draws; nodes that are not resident are drawn again.
// Two functions are all a source needs; masks, correction and the pipeline are the library's.
#include <gneiss/gneiss.hpp>
#include <gneiss/train/embedding_trainer.hpp>

#include <cmath>
#include <cstdio>
#include <map>
using namespace gneiss;

struct degree_negatives {
    std::vector<double> sums; // of degree^¾ up to and with each node

    explicit degree_negatives(std::vector<double> degrees) : sums(std::move(degrees)) {
        double sum = 0;
        for (double& d : sums) d = sum += std::pow(d, .75);
    }
    [[nodiscard]] std::uint64_t list_size(const negative_pool&) const { return 100; }
    void draw(const batch_key& key, std::uint64_t chunk, side end, const negative_pool& resident, std::span<node_id> list) const {
        random_stream random(random_key(/*seed*/ 1, random_domain::user).with(key.epoch).with(key.number.state).with(key.number.index)
                                 .with(chunk).with(static_cast<std::uint64_t>(end)));
        for (node_id& drawn : list) do
                drawn = static_cast<node_id>(std::ranges::upper_bound(sums, to_unit(random()) * sums.back()) - sums.begin());
            while (!resident.contains(drawn));
    }
};
static_assert(negative_source<degree_negatives>);

int main() {
    const row_partitioning nodes{.nodes = 2000, .partitions = 8};
    const row_layout row{.dim = 32, .state = 32};
    std::map<edge_bucket, std::vector<edge>> graph;
    std::vector<double> degrees(nodes.nodes, 0);
    for (node_id v = 0; v < nodes.nodes; ++v) // squares are few: some nodes have many edges
        for (const edge e : {edge{v, 0, (v * v + 1) % 2000}, edge{v, 1, (v * 11 + 5) % 2000}}) {
            graph[{nodes.of(e.source), nodes.of(e.destination)}].push_back(e);
            ++degrees[e.source], ++degrees[e.destination];
        }
    const edge_loader source{.size = [&](edge_bucket b) { return graph[b].size(); },
        .load = [&](edge_bucket b, std::span<edge> to) { std::ranges::copy(graph[b], to.begin()); }};
    const engine_factory engines = [] { return any_engine(threads_engine{}); };
    any_engine engine = engines();
    embedding_file::create(engine, "negatives.rows", nodes, row, 8);
    embedding_file rows(engines, "negatives.rows", nodes, row, 8);
    embedding_table relations(2, row);
    const tbb_executor executor;
    rows.fill([&](auto first, auto to) { initialize_rows(initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, 32, to, executor); });
    initialize_rows(initializer::uniform(-1, 1), 0, 1, embedding_kind::relations, 0, 32, relations.table(), executor);
    memory_budget budget(8 << 20);
    partition_buffer buffer(rows, {.resident_partitions = 2}, budget);
    edge_buffer edges(source, nodes.partitions, false, 1 << 20, budget);
    any_link_model model = make_link_model("complex", "softmax", row.dim);
    embedding_trainer training({.batch_edges = 100, .negatives = {.per_chunk = 100, .chunks = 1}, .own_negatives = degree_negatives(degrees)},
        model, adagrad{.rate = .2F}, buffer, edges, relations, executor, budget);
    const beta_order order(nodes.partitions, /*resident*/ 2, /*seed*/ 1);
    double loss[20];
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) loss[epoch] = training.run(order(epoch), epoch).model.mean_loss();
    std::printf("loss %.3f, then %.3f a question\n", loss[0], loss[19]);
    return loss[19] < loss[0] / 2 ? 0 : 1;
}
