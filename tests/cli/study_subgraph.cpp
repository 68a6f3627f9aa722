// Covers bench/study/subgraph.hpp.
#include "study/subgraph.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/graph/edge_list.hpp>

namespace test_cli_study_subgraph {

using namespace gneiss;
using study::neighborhood_policy;

namespace {

symmetric_csr random_graph(std::uint32_t nodes, std::size_t edges, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user});
    std::vector<edge> list(edges);
    for (edge& e : list) e = {static_cast<node_id>(draw.below(nodes)), 0, static_cast<node_id>(draw.below(nodes))};
    edge_list<> stream(nodes, std::move(list));
    return make_symmetric_csr(stream);
}

/// Returns the graph's adjacency as counts.
std::vector<std::vector<double>> matrix_of(const symmetric_csr& graph) {
    std::vector<std::vector<double>> a(graph.nodes(), std::vector<double>(graph.nodes()));
    for (node_id v = 0; v < graph.nodes(); ++v)
        for (const node_id u : graph.list(v)) ++a[v][u];
    return a;
}

/// Checks that `of` has exactly the edges of the graph among its nodes.
void check_edges(const study::subgraph& of, const std::vector<std::vector<double>>& a) {
    const auto among = matrix_of(of.among);
    for (std::size_t i = 0; i < of.nodes.size(); ++i)
        for (std::size_t k = 0; k < of.nodes.size(); ++k) CHECK(among[i][k] == a[of.nodes[i]][of.nodes[k]]);
}

} // namespace

TEST_CASE("a neighborhood is what powers of the adjacency matrix reach; influence in it is Ã^L e of the whole graph") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const symmetric_csr graph = random_graph(40, 20 + 3 * seed, seed);
        const auto a = matrix_of(graph);
        const std::vector<node_id> batch{3, 17, 8};
        const auto hops = static_cast<std::uint32_t>(1 + seed % 3);
        study::subgraph_maker make(graph);
        const study::subgraph around = make.around(batch, hops);

        std::vector<double> mass(40), next(40);
        std::set<node_id> reached(batch.begin(), batch.end()), direct = reached;
        for (const node_id v : batch) mass[v] = 1;
        for (std::uint32_t step = 0; step < hops; ++step) {
            std::ranges::fill(next, 0.);
            for (std::size_t v = 0; v < 40; ++v) {
                double degree = 0;
                for (const double edges : a[v]) degree += edges;
                next[v] += degree == 0 ? mass[v] : mass[v] / 2;
                for (std::size_t u = 0; u < 40 && degree != 0; ++u) next[u] += mass[v] / 2 * a[v][u] / degree;
            }
            mass.swap(next);
            for (node_id v = 0; v < 40; ++v)
                if (mass[v] != 0) reached.insert(v);
            if (step == 0) direct = reached;
        }
        CHECK(std::set(around.nodes.begin(), around.nodes.end()) == reached);
        CHECK(around.nodes.size() == reached.size());
        CHECK(std::set(around.nodes.begin(), around.nodes.begin() + static_cast<std::ptrdiff_t>(around.direct)) ==
            direct);
        CHECK(std::ranges::equal(std::span(around.nodes).first(around.batch), batch));
        check_edges(around, a);
        const std::vector<float> scores =
            make.scores_of(around, neighborhood_policy::influence, hops, {seed, random_domain::user});
        for (std::size_t i = 0; i < scores.size(); ++i)
            CHECK(scores[i] == doctest::Approx(mass[around.nodes[i]]).epsilon(1e-4));
    }
}

TEST_CASE("the best nodes of a neighborhood are those of the greatest scores, in addition to the batch") {
    const symmetric_csr graph = random_graph(200, 600, 5);
    const auto a = matrix_of(graph);
    const std::vector<node_id> batch{1, 2, 3, 4, 5};
    study::subgraph_maker make(graph);
    const study::subgraph around = make.around(batch, 2);
    const random_key key{9, random_domain::user};
    for (const auto policy :
        {neighborhood_policy::random, neighborhood_policy::neighbor, neighborhood_policy::influence})
        for (const std::size_t count :
            {std::size_t{0}, std::size_t{7}, around.nodes.size() / 2, around.nodes.size() - batch.size()}) {
            const study::subgraph best = make.best(around, count, policy, 2, key);
            REQUIRE(best.nodes.size() == batch.size() + count);
            CHECK(std::ranges::equal(std::span(best.nodes).first(best.batch), batch));
            check_edges(best, a);
            const std::vector<float> scores = make.scores_of(around, policy, 2, key);
            const std::set<node_id> kept(best.nodes.begin(), best.nodes.end());
            float worst_kept = 1e9F, best_dropped = -1;
            std::size_t direct = batch.size();
            for (std::size_t i = batch.size(); i < around.nodes.size(); ++i) {
                const bool in = kept.contains(around.nodes[i]);
                if (in)
                    worst_kept = std::min(worst_kept, scores[i]);
                else
                    best_dropped = std::max(best_dropped, scores[i]);
                direct += in && i < around.direct;
            }
            CHECK(worst_kept >= best_dropped);
            CHECK(best.direct == direct);
            if (policy == neighborhood_policy::neighbor)
                CHECK(best.direct == batch.size() + std::min(count, around.direct - batch.size()));
        }
    CHECK(make.best(around, 50, neighborhood_policy::random, 2, key.with(1)).nodes !=
        make.best(around, 50, neighborhood_policy::random, 2, key.with(2)).nodes);
}

TEST_CASE("layers read all nodes and finally return the batch") {
    const symmetric_csr graph = random_graph(30, 60, 1);
    study::subgraph_maker make(graph);
    const std::vector<node_id> batch{7, 9};
    const study::subgraph around = make.around(batch, 2);
    std::vector<std::uint32_t> offsets, unused;
    for (std::size_t i = 0; i < 2; ++i) {
        const layer_view view = around.of_layers(2).layer(i, offsets, unused);
        CHECK(view.sources == around.nodes.size());
        CHECK(view.targets == (i == 0 ? around.nodes.size() : 2));
        REQUIRE(view.offsets.size() == view.targets + 1);
        for (std::size_t t = 0; t < view.targets; ++t)
            CHECK(std::ranges::equal(view.neighbors.subspan(view.offsets[t], view.offsets[t + 1] - view.offsets[t]),
                around.among.list(static_cast<node_id>(t))));
    }
}

} // namespace test_cli_study_subgraph
