#include <gneiss/storage/adjacency/neighbor_coverage.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <support/cut_into.hpp>
#include <support/temporary_directory.hpp>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace test_storage_adjacency_neighbor_coverage {

using namespace gneiss;

TEST_CASE("the coverage of a partition is the share of its nodes' edges whose other end is resident") {
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
        const row_partitioning rows{60 + 10 * seed, 7};
        std::vector<edge> edges = test::hub_edges(rows.nodes, 500, seed);
        for (edge& e : edges) e.relation = 0;
        shuffle(edges, random_key(seed, random_domain::user));
        std::erase_if(edges,
            [&](const edge& e) { return rows.of(e.destination) == 5 || rows.of(e.source) == 5; }); // one without edges
        const test::temporary_directory directory;
        const bucket_store store = test::build(directory.path(), bucket_layout{rows, 1}, edges);
        for (const std::vector<partition_id>& resident :
            {std::vector<partition_id>{1, 2, 5}, {0, 6}, {0, 1, 2, 3, 4, 5, 6}})
            for (const auto direction : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
                const auto there = [&](partition_id p) { return std::ranges::binary_search(resident, p); };
                std::vector<double> present(7, 0), all(7, 0);
                const auto count = [&](node_id own, node_id other) {
                    all[rows.of(own)] += 1;
                    if (there(rows.of(other))) present[rows.of(own)] += 1;
                };
                for (const edge& e : edges) {
                    if (direction != neighbor_direction::out) count(e.destination, e.source);
                    if (direction != neighbor_direction::in) count(e.source, e.destination);
                }
                const neighbor_coverage coverage(store, resident, direction);
                CHECK(coverage.complete() == (resident.size() == 7));
                for (const partition_id p : resident)
                    CHECK(coverage[p] == doctest::Approx(all[p] == 0 ? 1 : present[p] / all[p]));
                const neighbor_coverage half(store, resident, direction, .5);
                for (const partition_id p : resident) CHECK(half[p] == doctest::Approx((1 + coverage[p]) / 2));
                std::vector<node_id> nodes;
                for (node_id v = 0; v < rows.nodes; ++v)
                    if (there(rows.of(v))) nodes.push_back(v);
                std::vector<float> each(3, -1.F);
                coverage.of(nodes, each);
                REQUIRE(each.size() == nodes.size());
                for (std::size_t i = 0; i < nodes.size(); ++i) CHECK(each[i] == coverage[rows.of(nodes[i])]);
            }
    }
}

TEST_CASE("a self loop counts once in the coverage of both directions, as samplers draw it") {
    for (std::uint64_t seed = 1; seed < 6; ++seed) {
        const row_partitioning rows{40 + 10 * seed, 5};
        std::vector<edge> edges;
        random_stream draws(random_key(seed, random_domain::user));
        for (int i = 0; i < 400; ++i) {
            const auto u = static_cast<node_id>(draws.below(rows.nodes)),
                       v = static_cast<node_id>(draws.below(rows.nodes));
            edges.push_back({u, 0, i % 3 == 0 ? u : v});
        }
        const test::temporary_directory directory;
        const bucket_store store = test::build(directory.path(), bucket_layout{rows, 1}, edges);
        for (const graph_form form : {graph_form::blocks, graph_form::csr})
            for (const auto direction : {neighbor_direction::in, neighbor_direction::out, neighbor_direction::both}) {
                const std::vector<partition_id> some{0, 2, 3};
                memory_budget budget;
                epoch_plan plan(1), whole(1);
                plan[0].resident = some;
                whole[0].resident = {0, 1, 2, 3, 4};
                const auto buffer_of = [&](const epoch_plan& states) {
                    const graph_buffer_options options{.form = form};
                    auto buffer = std::make_unique<graph_buffer>(
                        store, [] { return any_engine(threads_engine(2)); }, direction,
                        graph_buffer::need(states, store, direction, options).bytes, budget, options);
                    buffer->begin_epoch(states);
                    return buffer;
                };
                const auto of_some = buffer_of(plan), of_all = buffer_of(whole);
                const auto graph = of_some->acquire(0), all = of_all->acquire(0);
                const neighbor_coverage coverage(
                    store, some, direction, 1, [&](partition_id p) { return graph->self_loops(p); });
                for (const partition_id p : some) {
                    std::uint64_t there = 0, everywhere = 0;
                    for (auto v = static_cast<node_id>(rows.begin(p)); v < rows.begin(p + 1); ++v) {
                        std::uint32_t degree = 0;
                        graph->degrees(std::span(&v, 1), direction, std::span(&degree, 1));
                        there += degree;
                        all->degrees(std::span(&v, 1), direction, std::span(&degree, 1));
                        everywhere += degree;
                    }
                    CHECK(coverage[p] == doctest::Approx(static_cast<double>(there) / static_cast<double>(everywhere)));
                }
            }
    }
}

TEST_CASE("the relative cut is 1 where partitions are random, and the share of edges that leave theirs in any case") {
    const row_partitioning rows{400, 8};
    const auto cut = [&](const std::vector<edge>& edges, const row_partitioning& of) {
        const test::temporary_directory directory;
        return relative_cut(test::build(directory.path(), bucket_layout{of, 1}, edges));
    };
    const auto node = [&](partition_id p, std::uint64_t i) {
        return static_cast<node_id>(rows.begin(p) + i % rows.size(p));
    };
    random_stream draws(random_key(1, random_domain::user));
    std::vector<edge> anywhere, within;
    for (int i = 0; i < 40'000; ++i) {
        const auto from = static_cast<node_id>(draws.below(rows.nodes)),
                   to = static_cast<node_id>(draws.below(rows.nodes));
        anywhere.push_back({from, 0, to});
        within.push_back({from, 0, node(rows.of(from), to)});
    }
    CHECK(cut(anywhere, rows) == doctest::Approx(1).epsilon(.02));
    CHECK(cut(within, rows) == 0);
    for (std::size_t i = 0; i < within.size(); i += 10) within[i] = {node(0, 0), 0, node(7, 0)};
    const auto left =
        std::ranges::count_if(within, [&](const edge& e) { return rows.of(e.source) != rows.of(e.destination); });
    CHECK(cut(within, rows) == doctest::Approx(static_cast<double>(left) / 40'000 * 8 / 7));
    CHECK(cut(anywhere, {400, 1}) == 0);
    CHECK(cut({}, rows) == 0);
}

} // namespace test_storage_adjacency_neighbor_coverage
