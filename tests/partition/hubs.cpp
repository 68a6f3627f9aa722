#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/graph/edge_list.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/partition/hubs.hpp>

namespace test_partition_hubs {

using namespace gneiss;

namespace {

symmetric_csr random_graph(std::uint64_t nodes, std::size_t count, std::uint64_t seed) {
    random_stream draw(random_key{seed, random_domain::user});
    std::vector<edge> edges(count);
    for (edge& e : edges) e = {static_cast<node_id>(draw.below(nodes)), 0, static_cast<node_id>(draw.below(nodes))};
    edge_list<> stream(nodes, std::move(edges));
    return make_symmetric_csr(stream);
}

/// Reference: powers of the dense transition matrix.
std::vector<double> by_matrix(
    const symmetric_csr& graph, const std::vector<node_id>& training_nodes, const influence_options& options) {
    const auto n = static_cast<std::size_t>(graph.nodes());
    std::vector<double> step(n * n), x(n), y(n);
    for (std::size_t v = 0; v < n; ++v) {
        const auto list = graph.list(static_cast<node_id>(v));
        const auto degree = static_cast<double>(list.size());
        const double move = list.empty() ? 0 : options.lazy == lazy_walk::half ? .5 : degree / (degree + 1);
        step[v * n + v] = 1 - move;
        for (const node_id u : list) step[v * n + u] += move / degree;
    }
    for (const node_id v : training_nodes) ++x[v];
    for (std::uint32_t l = 0; l < options.steps; ++l) {
        std::ranges::fill(y, 0);
        for (std::size_t v = 0; v < n; ++v)
            for (std::size_t u = 0; u < n; ++u) y[u] += x[v] * step[v * n + u];
        x.swap(y);
    }
    return x;
}

} // namespace

TEST_CASE("influence is a power of the walk's matrix") {
    for (std::uint64_t seed = 0; seed < 10; ++seed)
        for (const lazy_walk lazy : {lazy_walk::half, lazy_walk::self_loop})
            for (const std::uint32_t steps : {0U, 1U, 2U, 5U}) {
                const symmetric_csr graph = random_graph(30, 10 + 9 * seed, seed);
                symmetric_stream stream(graph, 1 + seed);
                const std::vector<node_id> training_nodes{1, 4, 4, 17, 29};
                const influence_options options{.steps = steps, .lazy = lazy};
                const std::vector<double> exact = influence<double>(stream, training_nodes, options);
                const std::vector<double> expected = by_matrix(graph, training_nodes, options);
                for (std::size_t v = 0; v < 30; ++v) CHECK(exact[v] == doctest::Approx(expected[v]).epsilon(1e-12));
                CHECK(std::accumulate(exact.begin(), exact.end(), 0.) == doctest::Approx(5));
            }
}

TEST_CASE("one propagation from all training nodes equals the sum over their partitions") {
    const symmetric_csr graph = random_graph(200, 900, 3);
    symmetric_stream stream(graph);
    std::vector<node_id> all;
    std::vector<std::vector<node_id>> of_partition(4);
    for (node_id v = 0; v < 200; v += 3) {
        all.push_back(v);
        of_partition[v % 4].push_back(v);
    }
    const std::vector<double> whole = influence<double>(stream, all);
    std::vector<double> sum(200);
    for (const auto& some : of_partition) {
        const std::vector<double> part = influence<double>(stream, some);
        for (std::size_t v = 0; v < 200; ++v) sum[v] += part[v];
    }
    for (std::size_t v = 0; v < 200; ++v) CHECK(whole[v] == doctest::Approx(sum[v]).epsilon(1e-12));
    const std::vector<float> narrow = influence(stream, all);
    for (std::size_t v = 0; v < 200; ++v) CHECK(narrow[v] == doctest::Approx(whole[v]).epsilon(1e-4));
}

TEST_CASE("self loops in a stream are ignored") {
    struct looped {
        std::vector<std::uint32_t> offsets{0, 3, 5, 6};
        std::vector<node_id> neighbors{0, 1, 0, 0, 1, 2};
        bool given = false;
        adjacency_chunk next() {
            if (given) return {};
            given = true;
            return {0, offsets, neighbors};
        }
        void rewind() { given = false; }
        [[nodiscard]] static std::uint64_t nodes() { return 3; }
        [[nodiscard]] static edge_index arcs() { return 6; }
    } stream;
    CHECK(influence<double>(stream, std::vector<node_id>{0, 2}, {.steps = 1}) == std::vector<double>{.5, .5, 1});
    CHECK(
        sampled_influence(stream, std::vector<node_id>{2}, 9, 0, {.steps = 2}) == std::vector<std::uint32_t>{0, 0, 9});
}

TEST_CASE("sampled walks end with their expected frequency, by a chi-square test") {
    const symmetric_csr graph = random_graph(12, 30, 7);
    symmetric_stream stream(graph);
    const std::vector<node_id> training_nodes{2, 5};
    for (const lazy_walk lazy : {lazy_walk::half, lazy_walk::self_loop}) {
        const influence_options options{.steps = 3, .lazy = lazy};
        constexpr std::uint32_t walks = 20000;
        const std::vector<std::uint32_t> seen = sampled_influence(stream, training_nodes, walks, 1, options);
        CHECK(seen == sampled_influence(stream, training_nodes, walks, 1, options));
        CHECK(seen != sampled_influence(stream, training_nodes, walks, 2, options));
        const std::vector<double> expected = influence<double>(stream, training_nodes, options);
        double distance = 0, kinds = 0;
        for (std::size_t v = 0; v < 12; ++v) {
            if (expected[v] == 0) {
                CHECK(seen[v] == 0);
                continue;
            }
            const double mean = expected[v] * walks;
            distance += std::pow(seen[v] - mean, 2) / mean;
            ++kinds;
        }
        CHECK(distance < kinds + 5 * std::sqrt(2 * kinds)); // more than five standard deviations are not chance
        CHECK(std::accumulate(seen.begin(), seen.end(), 0U) == 2 * walks);
    }
}

TEST_CASE("the most influential nodes are the first of a sort, ties by id") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        std::vector<std::uint32_t> scores(50);
        for (std::size_t v = 0; v < 50; ++v)
            scores[v] = static_cast<std::uint32_t>(below(random_key{seed, random_domain::user}[v], 12));
        std::vector<node_id> sorted(50);
        std::iota(sorted.begin(), sorted.end(), node_id{0});
        std::ranges::stable_sort(sorted, std::ranges::greater(), [&](node_id v) { return scores[v]; });
        for (const std::size_t count : {0UL, 1UL, 7UL, 50UL, 60UL})
            CHECK(most_influential<std::uint32_t>(scores, count) ==
                std::vector<node_id>(
                    sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(count, 50))));
    }
}

TEST_CASE("a star's center is its hub; absent nodes are refused") {
    std::vector<edge> star;
    for (node_id v = 1; v < 30; ++v) star.push_back({0, 0, v});
    edge_list<> edges(31, std::move(star));
    const symmetric_csr graph = make_symmetric_csr(edges);
    symmetric_stream stream(graph);
    std::vector<node_id> leaves(29);
    std::iota(leaves.begin(), leaves.end(), node_id{1});
    CHECK(most_influential<float>(influence(stream, leaves), 1) == std::vector<node_id>{0});
    const symmetric_csr empty;
    symmetric_stream nothing(empty);
    CHECK(influence(nothing, {}).empty());
    try {
        (void)influence(stream, std::vector<node_id>{31});
        FAIL("a node that there is not was taken");
    } catch (const error& e) {
        CHECK(e.code() == errc::out_of_range);
    }
    std::stop_source stopped;
    stopped.request_stop();
    try {
        (void)influence(stream, leaves, {.stop = stopped.get_token()});
        FAIL("a stop was not noticed");
    } catch (const error& e) {
        CHECK(e.code() == errc::canceled);
    }
}

} // namespace test_partition_hubs
