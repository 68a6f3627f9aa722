#include <gneiss/train/tasks.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"
#include "train/graph_harness.hpp"
#include "train/link_harness.hpp"

namespace test_train_tasks {

using namespace gneiss;
using test::temporary_directory;

namespace {

/// Draws like the library, as a custom type.
struct as_the_library {
    negative_sampler by;
    [[nodiscard]] std::uint64_t list_size(const negative_pool& resident) const { return by.list_size(resident); }
    void draw(const batch_key& key, std::uint64_t chunk, side corrupt_side, const negative_pool& resident,
        std::span<node_id> list) const {
        by.draw(key, chunk, corrupt_side, resident, list);
    }
};

/// Draws in proportion to degree^¾ among the resident nodes, like word2vec.
struct by_power_of_degree {
    std::vector<double> sums; // cumulative over all nodes
    std::uint64_t size;

    by_power_of_degree(std::vector<double> degrees, std::uint64_t list) : sums(std::move(degrees)), size(list) {
        double sum = 0;
        for (double& d : sums) d = sum += std::pow(d, .75);
    }
    [[nodiscard]] std::uint64_t list_size(const negative_pool&) const { return size; }
    void draw(const batch_key& key, std::uint64_t chunk, side corrupt_side, const negative_pool& resident,
        std::span<node_id> list) const {
        random_stream draw(random_key(9, random_domain::user)
                .with(key.epoch)
                .with(key.number.state)
                .with(key.number.index)
                .with(chunk)
                .with(static_cast<std::uint64_t>(corrupt_side)));
        for (node_id& drawn : list) do
                drawn =
                    static_cast<node_id>(std::ranges::upper_bound(sums, to_unit(draw()) * sums.back()) - sums.begin());
            while (!resident.contains(drawn));
    }
};
static_assert(negative_source<as_the_library> && negative_source<by_power_of_degree>);

std::vector<double> degrees(const link_harness::toy_graph& graph) {
    std::vector<double> result(graph.partitioning.nodes, 0);
    for (const auto& [bucket, edges] : graph.buckets)
        for (const edge& e : edges) ++result[e.source], ++result[e.destination];
    return result;
}

} // namespace

TEST_CASE(
    "custom negatives train embeddings: the library's draws give its bits, others by degree, whatever the threads") {
    const temporary_directory directory;
    link_harness::toy_graph graph(120, 4, 3, 600, 1);
    link_harness::set_up with;
    with.training = {.batch_edges = 70,
        .negatives = {.per_chunk = 12, .chunks = 3, .degree_fraction = .5, .filtered = true, .log_q_correction = true},
        .pipeline = {.staleness = 0},
        .seed = 3};
    const auto expected = train(graph, with, directory / "library");
    with.training.own_negatives = as_the_library{negative_sampler(with.training.negatives, 3)};
    CHECK(train(graph, with, directory / "same") == expected);
    with.training.own_negatives = by_power_of_degree(degrees(graph), 10);
    const auto other = train(graph, with, directory / "other");
    CHECK(other.rows != expected.rows);
    CHECK(std::isfinite(other.loss));
    with.threads = 2;
    with.training.pipeline.sample_workers = 2;
    CHECK(train(graph, with, directory / "again") == other);
    CHECK(train(graph, with, directory / "resumed", 5).rows == other.rows);

    with.training.negatives.per_chunk = 9; // the number that memory is planned for
    CHECK_THROWS_WITH_AS((void)train(graph, with, directory / "longer"),
        doctest::Contains("lists of 10 negatives, where the options allow 1 to 9"), error);
}

TEST_CASE("default chunks are those of a whole batch, also in the last batch of a state") {
    const temporary_directory directory;
    link_harness::toy_graph graph(120, 1, 3, 3500, 1);
    link_harness::set_up with;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 1;
    with.epochs = 1;
    with.training = {.batch_edges = 3000, .negatives = {.per_chunk = 5, .chunks = 3}, .pipeline = {.staleness = 0}};
    const auto expected = train(graph, with, directory / "given");
    with.training.negatives.chunks = 0;
    CHECK(train(graph, with, directory / "derived") == expected);
    with.training.negatives.chunks = 2;
    CHECK_FALSE(train(graph, with, directory / "other") == expected);
    const link_batch_bound bound = bound_link_batch({.chunks = 5}, 5000, 1 << 20),
                           derived = bound_link_batch({}, 5000, 1 << 20);
    CHECK(derived.bytes == bound.bytes);
    CHECK(derived.nodes == bound.nodes);
}

TEST_CASE("a loop with custom negatives of a concrete type trains the bits of the trainer") {
    const temporary_directory directory;
    link_harness::toy_graph graph(120, 4, 3, 600, 1);
    link_harness::set_up with;
    with.training = {.batch_edges = 70,
        .negatives = {.per_chunk = 12, .chunks = 3, .degree_fraction = .5},
        .pipeline = {.staleness = 0},
        .seed = 3};
    const by_power_of_degree own(degrees(graph), 12);
    with.training.own_negatives = own;
    const auto expected = train(graph, with, directory / "rows");

    const serial_executor executor;
    const row_layout layout{with.dim, with.dim};
    const any_row_optimizer optimizer = make_row_optimizer(with.optimizer, .1F);
    any_link_model model = make_link_model(with.decoder, with.loss, with.dim);
    embedding_table relations(graph.relations, layout);
    initialize_rows(
        initializer::uniform(-.1F, .1F), 0, 1, embedding_kind::relations, 0, with.dim, relations.table(), executor);
    any_engine engine = with.engines();
    embedding_file::create(engine, directory / "again", graph.partitioning, layout, 4);
    embedding_file rows(with.engines, directory / "again", graph.partitioning, layout, 4);
    rows.fill([&](std::uint64_t first, matrix_view<float> to) {
        initialize_rows(initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, with.dim, to, executor);
    });
    memory_budget budget;
    partition_buffer buffer(rows, {.resident_partitions = with.buffer_slots}, budget);
    edge_buffer edges(graph.source(), {.partitions = 4}, budget);
    link_task task({with.training.batch_edges, with.training.batch_from, with.training.negatives, with.training.seed},
        own, edges, graph.partitioning);
    no_topology topology;
    sampled_batches batches(task, topology, make_no_hops, executor);
    no_features features;
    buffered_embeddings embeddings(buffer, {}, executor);
    cpu_embedding_backend backend(link_head(model, relations), executor);
    train_loop loop(
        {.pipeline = with.training.pipeline}, batches, features, embeddings, backend, {.rows = optimizer}, budget);
    double loss = 0;
    const auto order = make_order(with.order, 4, with.order_slots, 7);
    for (std::uint64_t e = 0; e < with.epochs; ++e) loss += loop.run(order(e), e).model.loss;
    CHECK(loss == expected.loss);
    for (std::size_t r = 0; r < relations.rows(); ++r)
        CHECK(std::ranges::equal(
            relations.table()[r], std::span(expected.relations).subspan(r * layout.floats(), layout.floats())));
}

TEST_CASE("custom negatives train a GNN: drawn like the library's they give its bits") {
    const auto data = graph_harness::graph_data::random(150, 4, 3, 900, 2);
    graph_harness::set_up with;
    with.links = true;
    const auto expected = train(data, with);
    with.training.own_negatives = as_the_library{negative_sampler(with.training.negatives, with.training.seed)};
    CHECK(train(data, with) == expected);
    with.training.own_negatives = by_power_of_degree(std::vector<double>(150, 1), with.training.negatives.per_chunk);
    CHECK_FALSE(train(data, with) == expected);
}

} // namespace test_train_tasks
