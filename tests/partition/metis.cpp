#include <doctest/doctest.h>

#include "graphs.hpp"

#if __has_include(<metis.h>)
#include <gneiss/partition/metis.hpp>
#endif

namespace test_partition_metis {

#if !__has_include(<metis.h>)
TEST_CASE("METIS is not installed: its tests are skipped" * doctest::skip()) {}
#else
using namespace gneiss;

TEST_CASE("METIS separates two cliques at the edge between them, by either method, within the requested balance") {
    const weighted_graph graph = test::weighted(60, test::two_cliques(30));
    for (const bool recursive : {false, true}) {
        const std::vector<partition_id16> parts = metis_partition(graph, {.parts = 2, .recursive = recursive});
        check_assignment(parts, 2, 60);
        CHECK(edge_cut(graph, parts) == 1);
        CHECK(part_weights(graph, parts, 2) == std::vector<std::uint64_t>{30, 30});
    }
    weighted_graph plain = graph; // all weights are 1
    plain.edge_weights.clear();
    plain.node_weights.clear();
    CHECK(edge_cut(graph, metis_partition(plain, {.parts = 2})) == 1);
}

TEST_CASE("a constraint for each label spreads its nodes, unlike the cut alone") {
    const weighted_graph graph = test::weighted(400, test::grid(40, 10));
    std::vector<class_id> labels(400, unlabeled);
    for (node_id v = 0; v < 400; ++v)
        if (v % 40 < 10) labels[v] = v / 40 % 2; // at one end
    const std::vector<partition_id16> parts =
        metis_partition(graph, {.parts = 2, .labels = labels, .label_imbalance = .1});
    for (class_id label = 0; label < 2; ++label) {
        std::size_t first = 0;
        for (node_id v = 0; v < 400; ++v) first += labels[v] == label && parts[v] == 0;
        CHECK(first >= 20);
        CHECK(first <= 30); // 50 in total
    }
}

TEST_CASE("requests that METIS cannot handle are refused") {
    CHECK(metis_partition({}, {.parts = 3}).empty());
    CHECK(metis_partition(test::weighted(3, {}), {.parts = 9}) == std::vector<partition_id16>{0, 1, 2});
    CHECK(metis_partition(test::weighted(3, {}), {.parts = 1}) == std::vector<partition_id16>{0, 0, 0});
    check_assignment(metis_partition(test::weighted(50, {}), {.parts = 4}), 4, 50); // no edge
    CHECK_THROWS_AS((void)metis_partition({}, {.parts = 0}), error);
    const std::vector<class_id> labels(2);
    CHECK_THROWS_AS((void)metis_partition(test::weighted(3, {}), {.parts = 2, .labels = labels}), error);
    weighted_graph heavy = test::weighted(3, {});
    heavy.node_weights = {1u << 31, 1, 1};
    if (sizeof(idx_t) == 4) CHECK_THROWS_AS((void)metis_partition(heavy, {.parts = 2}), error);
}

#endif

} // namespace test_partition_metis
