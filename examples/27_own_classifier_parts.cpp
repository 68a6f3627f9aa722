// A node classifier with custom parts, set by its options: a sampler, and a policy for the cache of features, which
// stay on disk. Custom layers (19_own_layer) are set by `.own_layers` in the same way.
#include <gneiss/graph/neighbor_lists.hpp>
#include <gneiss/node_classification.hpp>

#include <algorithm>
#include <cstdio>

#include <gneiss/cache/lru.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/io/import/importer.hpp>
using namespace gneiss;

struct largest_ids { // keeps the k neighbors of each node with the largest ids
    std::size_t k, hops;
    neighbor_sample_writer<> writer{};
    neighbor_lists<> lists{};
    std::vector<std::uint32_t> offsets{};
    std::vector<node_id> chosen{};
    neighbor_sample<> sample(const batch_key& key, const resident_graph& graph, std::span<const node_id> seeds,
        const executor_ref& /*executor*/, mini_batch_arena& arena, std::span<const excluded_edge<>> /*excluded*/ = {}) {
        writer.begin(graph.nodes(), seeds);
        for (std::size_t hop = 0; hop < hops; ++hop) {
            lists.read(graph, writer.nodes(), neighbor_direction::both); // full lists, within the resident partitions
            offsets.assign(1, 0), chosen.clear();
            for (std::size_t i = 0; i < lists.size(); ++i) {
                const auto to = static_cast<std::ptrdiff_t>(chosen.size());
                chosen.insert(chosen.end(), lists[i].begin(), lists[i].end());
                std::sort(chosen.begin() + to, chosen.end(), std::greater{});
                chosen.resize(static_cast<std::size_t>(to) + std::min(k, lists[i].size()));
                offsets.push_back(static_cast<std::uint32_t>(chosen.size()));
            }
            writer.add_hop(offsets, chosen);
        }
        return writer.write(key, arena);
    }
};

int main() {
    const planted_partition<> graph({.nodes = 5000, .edges = 50000, .communities = 8, .mixing = .1});
    import_options options;
    options.sources = {{.path = "planted",
        .compute = [&](std::uint64_t first, std::span<edge> out) { graph.fill(first, out); },
        .computed_edges = graph.edges(),
        .computed_nodes = graph.nodes()}};
    options.node_attributes.compute_label = [&](std::uint64_t v) {
        return static_cast<std::int32_t>(graph.label(static_cast<node_id>(v)));
    };
    options.node_attributes.compute_features = [&](std::uint64_t v, std::span<float> out) {
        graph.features(static_cast<node_id>(v), out);
    };
    options.node_attributes.computed_columns = 16;
    options.node_attributes.fractions = {.5, 0, .5};
    options.out = "planted.data";
    options.partitions = 4;
    options.force = true;
    (void)import_dataset(options, tbb_executor());

    //! [classifier]
    context run({.memory = 128 << 20});
    const dataset data("planted.data");
    node_classifier train(run, data,
        {.layers = "sage:32,sage",
            .own_sampler = [] { return largest_ids{5, 2}; },
            .own_cache = [] { return lru(1000); },
            .batch = 200,
            .resident = 2});
    for (const auto& epoch : train.epochs(10)) std::printf("loss %.3f\n", epoch.mean_loss());
    //! [classifier]
    return train.evaluate(node_split::test).accuracy() > .8 ? 0 : 1;
}
