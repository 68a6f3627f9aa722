// From triples in a text file to a filtered MRR: import, train, rank. Also answers one query.
#include <gneiss/link_prediction.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>

#include <cstdio>
#include <fstream>

#include <gneiss/eval/top_k.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/io/import/importer.hpp>
using namespace gneiss;

int main() {
    std::ofstream train("family.train.tsv"), test("family.test.tsv"); // 200 chains of parents, and the grandparents
    for (int family = 0; family < 200; ++family) {
        const auto name = [&](int generation) { return std::to_string(family) + "." + std::to_string(generation); };
        for (int g = 0; g < 5; ++g) train << name(g) << "\tparent\t" << name(g + 1) << "\n";
        for (int g = 0; g < 4; ++g)
            (family % 10 == 0 && g == 2 ? test : train) << name(g) << "\tgrandparent\t" << name(g + 2) << "\n";
    }
    train.close(), test.close();

    context run({.memory = 64 << 20});
    import_options options;
    options.sources = {{.path = "family.train.tsv"}, {.path = "family.test.tsv", .split = edge_split::test}};
    options.out = "family";
    options.partitions = 4;
    options.force = true;
    (void)import_dataset(options, tbb_executor());
    const dataset data("family");

    const bucketed_edges edges(data.buckets());
    node_embeddings nodes(run, "family.rows", edges.rows(), {.dim = 32, .overwrite = true});
    link_trainer trainer(run, edges, nodes, complex_decoder{},
        {.resident = 2, .batch = 200, .negatives = {.per_chunk = 100, .chunks = 1}});
    for (const auto& epoch : trainer.epochs(40))
        if (epoch.number % 10 == 9) std::printf("loss %.3f\n", epoch.mean_loss());

    //! [evaluate]
    const edge_scan known = [&](const edge_visitor& visit) { // true edges, excluded from the candidates
        edges.for_each_edge(visit);
        visit(data.split("test").edges());
    };
    const auto held_out = data.split("test");
    const double mrr = trainer.evaluate(held_out.edges(), known).both().mrr();
    std::printf("filtered MRR %.3f of %zu edges\n", mrr, held_out.edges().size());

    const edge& e = held_out.edges().front();
    const link_query query = query_of(e, side::tail);
    const auto answers = top_k(trainer.scorer(), trainer.nodes(), std::span(&query, 1), 3, known, run.executor());
    //! [evaluate]
    for (const auto& answer : answers.front())
        std::printf("%s grandparent %s: %.2f\n", data.node_label(e.source).c_str(),
            data.node_label(answer.node).c_str(), static_cast<double>(answer.score));
    return mrr > .1 ? 0 : 1;
}
