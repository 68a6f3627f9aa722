#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/grem.hpp>
#include <gneiss/partition/grem_analysis.hpp>

namespace test_partition_grem_analysis {

using namespace gneiss;

namespace {

/// Two communities with a sixth of the edges between them, and the community of each node.
struct two_communities {
    static constexpr std::uint64_t nodes = 4000;
    planted_partition<> from{
        {.nodes = nodes, .edges = 80000, .communities = 2, .mixing = .17, .degree_exponent = 0, .seed = 3}};
    edge_list<> edges{nodes, result()};
    symmetric_csr graph = make_symmetric_csr(edges);
    std::vector<partition_id16> truth = labels();

    std::vector<edge> result() const {
        std::vector<edge> all(80000);
        from.fill(0, all);
        return all;
    }
    std::vector<partition_id16> labels() const {
        std::vector<partition_id16> parts;
        for (std::uint64_t v = 0; v < nodes; ++v) parts.push_back(static_cast<partition_id16>(from.label(v)));
        return parts;
    }
    [[nodiscard]] double cut(const std::vector<partition_id16>& part) const {
        double found = 0;
        for (std::size_t v = 0; v < nodes; ++v)
            for (const node_id u : graph.list(static_cast<node_id>(v))) found += part[u] != part[v];
        return found / static_cast<double>(graph.arcs());
    }
};

} // namespace

TEST_CASE("the odds of a wrong side equal an explicit enumeration") {
    for (std::uint64_t k = 0; k <= 9; ++k)
        for (std::uint64_t k0 = (k + 1) / 2; k0 <= k; ++k0)
            for (std::uint64_t drawn = 0; drawn <= k; ++drawn) {
                double wrong = 0, tie = 0, all = 0;
                for (std::uint32_t chosen = 0; chosen < 1U << k;
                    ++chosen) { // the first k0 neighbors are in the first part
                    std::uint64_t size = 0, in_first = 0;
                    for (std::uint64_t i = 0; i < k; ++i)
                        if ((chosen >> i & 1) != 0) {
                            ++size;
                            in_first += i < k0;
                        }
                    if (size != drawn) continue;
                    ++all;
                    wrong += 2 * in_first < drawn;
                    tie += 2 * in_first == drawn;
                }
                const wrong_or_tie odds = wrong_side(k, k0, drawn);
                CHECK(odds.wrong == doctest::Approx(wrong / all));
                CHECK(odds.tie == doctest::Approx(tie / all));
            }
}

TEST_CASE("an average over chunks is worth the corresponding number of chunks") {
    for (const double older : {0., .3, .5, .8})
        for (int seen = 1; seen < 12; ++seen) {
            std::vector<double> weights{1};
            for (int i = 1; i < seen; ++i) {
                for (double& w : weights) w *= older;
                weights.push_back(1 - older);
            }
            double squares = 0;
            for (const double w : weights) squares += w * w;
            CHECK(effective_chunks(older, seen) == doctest::Approx(1 / squares));
        }
    CHECK(effective_chunks(.5, 2) == doctest::Approx(2));
    CHECK(effective_chunks(.5, 1000) == doctest::Approx(3));
}

TEST_CASE("with all edges the expected cut equals the partition's if no node prefers another part") {
    edge_list<> edges(6, {{0, 0, 1}, {1, 0, 2}, {2, 0, 0}, {3, 0, 4}, {4, 0, 5}, {5, 0, 3}, {0, 0, 3}, {1, 0, 1}});
    const symmetric_csr graph = make_symmetric_csr(edges);
    symmetric_stream stream(graph);
    const std::vector<partition_id16> part{0, 0, 0, 1, 1, 1};
    CHECK(expected_greedy_cut(stream, part, 1) == doctest::Approx(1. / 7));
    CHECK(expected_greedy_cut(stream, part, 0) == doctest::Approx(1. / 7)); // as printed: no information, no error
    CHECK(expected_greedy_cut(stream, part, 0, greedy_tie::even) == doctest::Approx(.5));
    const symmetric_csr empty;
    symmetric_stream nothing(empty);
    CHECK(expected_greedy_cut(nothing, {}, .5) == 0);
    CHECK_THROWS_AS((void)expected_greedy_cut(stream, part, 1.5), error);
    CHECK_THROWS_AS((void)expected_greedy_cut(stream, std::vector<partition_id16>(6, 2), .5), error);
}

TEST_CASE("equation 1 predicts the cut of greedy decisions, with and without refinement") {
    const two_communities executor;
    symmetric_stream stream(executor.graph);
    random_stream draw(random_key{1, random_domain::user});
    // Assumptions of the analysis: all others have their parts, and a node sees a share of its edges.
    const auto decide = [&](double share, std::span<const double> weights) {
        double cut = 0;
        for (std::size_t v = 0; v < executor.nodes; ++v) {
            double balance = 0;
            const auto list = executor.graph.list(static_cast<node_id>(v));
            for (const node_id u : list)
                for (const double weight : weights)
                    if (to_unit(draw()) < share) balance += executor.truth[u] == 1 ? weight : -weight;
            const bool side = balance != 0 ? balance > 0 : draw.below(2) == 1;
            for (const node_id u : list) cut += executor.truth[u] != static_cast<partition_id16>(side);
        }
        return cut / static_cast<double>(executor.graph.arcs());
    };
    const std::vector<double> one{1}, two{.5, .5}, many{.5, .25, .125, .0625, .03125, .03125};
    for (const double share : {.05, .1, .2}) {
        const auto expected = [&](double x) {
            return expected_greedy_cut(stream, executor.truth, std::min(x, 1.), greedy_tie::even);
        };
        CHECK(std::abs(decide(share, one) - expected(share)) < .03);
        CHECK(std::abs(decide(share, two) - expected(2 * share)) < .02);
        CHECK(std::abs(decide(share, many) - expected(effective_chunks(.5, 6) * share)) < .02);
    }
}

TEST_CASE(
    "on a random graph GREM cuts what equation 1 predicts for three chunks, fixed decisions what it predicts for one") {
    two_communities executor;
    symmetric_stream stream(executor.graph);
    memory_scratch<> place;
    // The seed partition is the truth, so that the measurement isolates the chunks.
    const auto truth = [&](double older, double chunk) {
        const auto seed = [&](const symmetric_csr& graph, std::array<std::uint64_t, 2>, std::uint64_t) {
            std::vector<bool> seen(executor.nodes);
            executor.edges.rewind();
            std::size_t left = static_cast<std::size_t>(std::ceil(chunk * 80000));
            for (auto some = executor.edges.next(); left != 0; some = executor.edges.next())
                for (std::size_t i = 0; i < some.size() && left != 0; ++i, --left)
                    seen[some[i].source] = seen[some[i].destination] = true;
            std::vector<partition_id16> sides;
            for (std::size_t v = 0; v < executor.nodes; ++v)
                if (seen[v]) sides.push_back(executor.truth[v]);
            REQUIRE(sides.size() == graph.nodes());
            return sides;
        };
        return grem(executor.edges, place, {.imbalance = .2}, {.chunk = chunk, .older = older, .shuffle = false}, seed);
    };
    for (const double chunk : {.1, .2}) {
        const double refined = expected_greedy_cut(stream, executor.truth, std::min(1., 3 * chunk), greedy_tie::even);
        CHECK(std::abs(executor.cut(truth(.5, chunk)) - refined) < .04);
        CHECK(executor.cut(truth(.5, chunk)) < executor.cut(truth(0, chunk)) - .02); // one chunk at a time
    }
}

} // namespace test_partition_grem_analysis
