// Custom negatives: in proportion to degree^¾, as in word2vec; nodes that are not resident are redrawn. A source needs
// two functions; the library supplies masks, correction and the pipeline.
#include <gneiss/link_prediction.hpp>

#include <cmath>
#include <cstdio>
using namespace gneiss;

//! [negatives]
struct degree_negatives {
    std::vector<double> sums; // cumulative sums of degree^¾

    explicit degree_negatives(std::vector<double> degrees) : sums(std::move(degrees)) {
        double sum = 0;
        for (double& d : sums) d = sum += std::pow(d, .75);
    }
    [[nodiscard]] std::uint64_t list_size(const negative_pool&) const { return 100; }
    void draw(const batch_key& key, std::uint64_t chunk, side end, const negative_pool& resident,
        std::span<node_id> list) const {
        random_stream random(random_key(/*seed*/ 1, random_domain::user)
                .with(key.epoch)
                .with(key.number.state)
                .with(key.number.index)
                .with(chunk)
                .with(static_cast<std::uint64_t>(end)));
        for (node_id& drawn : list) do
                drawn = static_cast<node_id>(
                    std::ranges::upper_bound(sums, to_unit(random()) * sums.back()) - sums.begin());
            while (!resident.contains(drawn));
    }
};
static_assert(negative_source<degree_negatives>);
//! [negatives]

int main() {
    std::vector<edge> graph;
    std::vector<double> degrees(2000, 0);
    for (node_id v = 0; v < 2000; ++v) // squares are rare: some nodes have many edges
        for (const edge e : {edge{v, 0, (v * v + 1) % 2000}, edge{v, 1, (v * 11 + 5) % 2000}}) {
            graph.push_back(e);
            ++degrees[e.source], ++degrees[e.destination];
        }
    context run({.memory = 8 << 20});
    const bucketed_edges edges(graph, {.partitions = 8});
    node_embeddings nodes(run, "negatives.rows", edges.rows(), {.dim = 32, .overwrite = true});
    link_trainer train(run, edges, nodes, complex_decoder{},
        {.resident = 2,
            .batch = 100,
            .own_negatives = degree_negatives(degrees),
            .negatives = {.per_chunk = 100, .chunks = 1}});
    for (const auto& epoch : train.epochs(20))
        if (epoch.number % 5 == 4) std::printf("loss %.3f per query\n", epoch.mean_loss());
    const double mrr = train.evaluate(graph).both().mrr();
    std::printf("MRR %.3f\n", mrr);
    return mrr > .5 ? 0 : 1;
}
