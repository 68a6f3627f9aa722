// A custom sampler: the k neighbors of each node with the lowest degree, since hubs carry the least information. It
// lists the neighbors of each hop; neighbor_sample_writer numbers them and lays them out. Features are in a file.
#include "small_graph.hpp"

#include <gneiss/gneiss.hpp>
#include <gneiss/storage/feature/mapped_rows.hpp>
#include <gneiss/train/sampled_batches.hpp>
#include <gneiss/train/trainers/ginex.hpp>

#include <cstdio>
#include <fstream>
#include <ranges>
using namespace gneiss;

//! [sampler]
struct least_known {
    int k, hops;
    neighbor_sample_writer<> writer{};
    std::vector<std::uint32_t> offsets{};
    std::vector<node_id> order{}, neighbors{};
    neighbor_sample<> sample(const batch_key& key, const csr_graph<>& graph, std::span<const node_id> seeds,
        const executor_ref& /*executor*/, mini_batch_arena& arena, std::span<const excluded_edge<>> /*excluded*/ = {}) {
        writer.begin(graph.nodes(), seeds);
        for (int hop = 0; hop < hops; ++hop) {
            offsets.assign(1, 0), neighbors.clear();
            for (const node_id v : writer.nodes()) { // the seeds, and all nodes reached before this hop
                const auto list = graph.in().neighbors(v);
                order.assign(list.begin(), list.end());
                std::ranges::stable_sort(order, {}, [&](node_id u) { return graph.in().neighbors(u).size(); });
                std::ranges::copy(std::views::take(order, k), std::back_inserter(neighbors));
                offsets.push_back(static_cast<std::uint32_t>(neighbors.size()));
            }
            writer.add_hop(offsets, neighbors);
        }
        return writer.write(key, arena);
    }
};
static_assert(storable_sampler_of<least_known, csr_graph<>>); // Ginex may store samples
//! [sampler]

int main() {
    constexpr std::uint32_t nodes = 5000, classes = 8, columns = 16;
    const small_graph graph(
        {.nodes = nodes, .edges = 50000, .communities = classes, .mixing = .1}, columns, neighbor_direction::in);
    std::ofstream("features", std::ios::binary)
        .write(reinterpret_cast<const char*>(graph.features.data()), nodes * columns * sizeof(float));
    const tbb_executor executor;
    //! [trainer]
    const stored_rows file{"features", 0, nodes, columns * sizeof(float)};
    any_row_source features(std::in_place_type<mapped_rows>, file, executor);
    dense_parameters<> weights;
    cpu_encoder encode(weights, parse_layers("sage:32,sage:8"), {.dense = columns, .sparse = 0});
    weights.allocate(/*seed*/ 1);
    ginex_trainer training = make_ginex({.batch = 200, .superbatches = {.schedule = superbatch_schedule::conventional}},
        {.sampler = {graph.edges, [] { return least_known{5, 2}; }},
            .features = feature_rows{.source = features, .columns = columns},
            .task = classified_nodes{graph.labels, [&](std::uint32_t, auto& out) { out = graph.nodes; }},
            .encode = encode,
            .weights = weights,
            .optimizer = make_dense_optimizer("sgd", .5F)},
        executor);
    for (std::uint64_t e = 0; e < 5; ++e)
        std::printf("accuracy %.3f\n", training.run(whole_graph(), e).model.accuracy());
    //! [trainer]
    return training.run(whole_graph(), 5).model.accuracy() > .8 ? 0 : 1;
}
