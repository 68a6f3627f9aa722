#include <gneiss/link_prediction.hpp>

#include <doctest/doctest.h>

#include <gneiss/order/any_order.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include <support/temporary_directory.hpp>

#include <string>
#include <vector>

namespace test_doors_link_prediction {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

std::vector<edge> two_relations(node_id nodes) {
    std::vector<edge> edges;
    for (node_id v = 0; v < nodes; ++v) edges.insert(edges.end(), {{v, 0, (v * 7 + 1) % nodes}, {v, 1, (v * 11 + 5) % nodes}});
    return edges;
}

struct trained {
    std::vector<double> losses;
    double mrr = 0;
    friend bool operator==(const trained&, const trained&) = default;
};

trained train(const context_options& how, link_trainer_options options, std::uint32_t partitions = 8) {
    const temporary_directory directory;
    const std::vector<edge> graph = two_relations(1000);
    context run(how);
    const bucketed_edges edges(graph, {.partitions = partitions});
    node_embeddings nodes(run, directory / "rows", edges.rows(), {.dim = 16});
    options.batch = 100;
    options.negatives.per_chunk = 100;
    link_trainer training(run, edges, nodes, complex_decoder{}, options);
    trained result;
    for (const link_epoch& epoch : training.epochs(8)) {
        CHECK(epoch.number == result.losses.size());
        CHECK(epoch.model.examples == graph.size());
        result.losses.push_back(epoch.mean_loss());
    }
    result.mrr = training.evaluate(graph).both().mrr();
    return result;
}

} // namespace

TEST_CASE("embeddings are learned on disk and in memory") {
    for (const std::uint32_t resident : {2U, 0U}) {
        const trained result = train({.memory = 8 << 20}, {.resident = resident});
        CHECK(result.losses.back() < result.losses.front() / 2);
        CHECK(result.mrr > .5);
    }
}

TEST_CASE("negatives from resident partitions alone are corrected by default if the loss has a log-sum") {
    const link_trainer_options some{.resident = 2, .staleness = 0};
    const auto with = [&](std::string_view loss, bool wanted) {
        link_trainer_options options = some;
        options.loss = make_loss(loss);
        options.log_q_correction = wanted;
        return train({}, options);
    };
    CHECK(train({}, some) == with("softmax", true));
    CHECK(train({}, some).losses != with("softmax", false).losses);
    link_trainer_options logistic = some;
    logistic.loss = make_loss("logistic");
    CHECK(train({}, logistic) == with("logistic", false));
    CHECK_THROWS_WITH_AS((void)with("logistic", true), doctest::Contains("losses with a log-sum"), error);
}

TEST_CASE("without staleness a seed determines the result, whatever the threads and the engine") {
    const link_trainer_options synchronous{.resident = 2, .staleness = 0};
    const trained expected = train({.threads = 1, .seed = 3}, synchronous);
    CHECK(train({.threads = 2, .seed = 3}, synchronous) == expected);
    CHECK(train({.threads = 2, .seed = 3, .engines = [] { return any_engine(threads_engine(4)); }}, synchronous) == expected);
    CHECK(train({.threads = 1, .seed = 4}, synchronous) != expected);
}

TEST_CASE("an epoch on disk transfers what its order predicts; one in memory transfers nothing after the first") {
    const temporary_directory directory;
    context run;
    const bucketed_edges edges(two_relations(1000), {.partitions = 8});
    node_embeddings nodes(run, directory / "rows", edges.rows(), {.dim = 16});
    link_trainer training(run, edges, nodes, distmult_decoder{}, {.resident = 2, .order = "beta"});
    const plan_cost cost = cost_of(make_order("beta", 8, 2, run.seed())(0), nodes.file().slot_bytes());
    CHECK(training.train_epoch().io.read_bytes == cost.read_bytes);
    node_embeddings others(run, directory / "others", edges.rows(), {.dim = 16});
    link_trainer in_memory(run, edges, others, distmult_decoder{});
    (void)in_memory.train_epoch();
    CHECK(in_memory.train_epoch().io.read_bytes == 0);
}

TEST_CASE("edges by bucket are those given, and ids beyond the declared counts are refused") {
    const std::vector<edge> graph = two_relations(100);
    const bucketed_edges edges(graph, {.partitions = 4});
    CHECK(edges.rows().nodes == 100);
    CHECK(edges.relations() == 2);
    std::vector<edge> found;
    const auto source = edges.open({});
    for (partition_id i = 0; i < 4; ++i)
        for (partition_id j = 0; j < 4; ++j) {
            std::vector<edge> bucket(static_cast<std::size_t>(source.loader.size({i, j})));
            source.loader.load({i, j}, bucket);
            for (const edge& e : bucket) CHECK((edges.rows().of(e.source) == i && edges.rows().of(e.destination) == j));
            found.insert(found.end(), bucket.begin(), bucket.end());
        }
    std::vector<edge> expected = graph;
    std::ranges::sort(expected);
    std::ranges::sort(found);
    CHECK(found == expected);
    CHECK_THROWS_WITH_AS(bucketed_edges(graph, {.partitions = 4, .nodes = 99}), doctest::Contains("100 nodes of 99"), error);
    CHECK_THROWS_WITH_AS(bucketed_edges(graph, {.partitions = 4, .relations = 1}), doctest::Contains("2 relations of 1"), error);
    CHECK_THROWS_AS(bucketed_edges(graph, {.partitions = 0}), error);
}

TEST_CASE("a budget that is too small ends in one error that names it") {
    CHECK_THROWS_WITH_AS((void)train({.memory = 50'000}, {.resident = 2}), doctest::Contains("partition buffer"), over_budget);
    CHECK_THROWS_WITH_AS((void)train({}, {.resident = 2, .order = "alphabetical"}), doctest::Contains("alphabetical"), error);
    CHECK_THROWS_WITH_AS((void)train({}, {.resident = 2, .order = "memory"}), doctest::Contains("order memory keeps all 8"), error);
}

} // namespace test_doors_link_prediction
