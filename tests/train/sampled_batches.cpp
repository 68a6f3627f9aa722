#include <gneiss/train/sampled_batches.hpp>

#include <doctest/doctest.h>

#include <gneiss/sample/weighted.hpp>

#include <vector>

#include "graph_harness.hpp"

namespace test_train_sampled_batches {

using namespace graph_harness;

namespace {

/// Takes the first k neighbors of every node.
struct first_neighbors {
    std::uint32_t k;
    std::size_t hops;
    neighbor_sample_writer<> writer{};

    template <neighbor_source G>
    neighbor_sample<> sample(const batch_key& key, const G& graph, std::span<const node_id> seeds,
        const executor_ref& /*executor*/, mini_batch_arena& arena, std::span<const excluded_edge<>> /*excluded*/) {
        writer.begin(graph.nodes(), seeds);
        for (std::size_t hop = 0; hop < hops; ++hop) {
            std::vector<std::uint32_t> degrees(writer.nodes().size()), offsets{0}, positions;
            graph.degrees(writer.nodes(), neighbor_direction::in, degrees);
            for (const std::uint32_t degree : degrees) {
                for (std::uint32_t i = 0; i < std::min(k, degree); ++i) positions.push_back(i);
                offsets.push_back(static_cast<std::uint32_t>(positions.size()));
            }
            std::vector<node_id> neighbors(positions.size());
            graph.neighbors_at({writer.nodes(), neighbor_direction::in, offsets, positions}, {.neighbors = neighbors});
            writer.add_hop(offsets, neighbors);
        }
        return writer.write(key, arena);
    }
};
static_assert(sampler_of<first_neighbors, resident_graph>);

/// Node classification with any sampler in the graph of the resident partitions.
struct node_training {
    gnn_harness all;
    memory_budget budget{};
    tbb_executor on;
    epoch_plan states;
    feature_buffer features;
    graph_buffer graph;
    node_task task;

    node_training(const graph_data& data, const set_up& with)
        : all(data, with),
          on(with.threads),
          states(all.order()(0)),
          features(*all.features, with.engines, feature_buffer::need(states, *all.features).bytes, budget),
          graph(data.store, with.engines, all.direction(),
              graph_buffer::need(states, data.store, all.direction()).bytes, budget),
          task({with.training.batch, with.training.seed}, data.labels, all.encode->outputs(), data.rows,
              [this](std::uint32_t s, std::vector<node_id>& out) { training_nodes(all.data, states)(s, out); }) {}

    /// Trains with stages of the test's; goes on after a stop.
    template <class Make>
    outcome run(Make make, const std::vector<pipeline_stage<training_batch>>& stages = {}, std::stop_token stop = {}) {
        buffered_topology topology(graph, {.resident_partitions = all.with.buffer_slots});
        sampled_batches batches(task, topology, make, on);
        buffered_features rows(features, on);
        no_embeddings none;
        cpu_encoder_backend<classification_head> backend(*all.encode, all.weights, {}, all.with.training.seed, on);
        train_loop loop({.pipeline = all.with.training.pipeline, .stages = stages}, batches, rows, none, backend,
            {all.optimizer, all.dense}, budget);
        std::vector<training_statistics> found;
        for (resume_position at{}; at.epoch < all.with.epochs;) {
            states = all.order()(at.epoch);
            const training_epoch done = loop.run(states, at, {}, stop);
            if (done.stopped) stop = {};
            found.push_back(done.model);
            at = done.position;
        }
        return all.end(std::move(found));
    }
};

set_up with_features() {
    set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.training.batch = 25;
    with.training.neighbors.fanout = {{.in = all_neighbors}, {.in = all_neighbors}};
    return with;
}

} // namespace

TEST_CASE(
    "a custom sampler trains on partitions from disk: if its k covers all neighbors it gives the library's bits") {
    const graph_data data = graph_data::planted(200, 4);
    set_up with = with_features();
    const auto run = [&](auto make) { return node_training(data, with).run(make); };
    const outcome expected = run([&] { return neighbor_sampler<>(with.training.neighbors, 0); });
    CHECK(run([] { return first_neighbors{1000, 2}; }) == expected);
    const outcome few = run([] { return first_neighbors{2, 2}; });
    CHECK(few.epochs[0].sampled_edges < expected.epochs[0].sampled_edges);
    CHECK(few.epochs[1].loss < few.epochs[0].loss);
    with.threads = 2;
    with.training.pipeline.sample_workers = 2;
    CHECK(run([] { return first_neighbors{2, 2}; }) == few);
}

TEST_CASE(
    "weights reach training: equal ones draw all neighbors, and edges of weight 0 are left out, by either sampler") {
    const graph_data data = graph_data::planted(200, 4);
    set_up with = with_features();
    // Edge ids follow the order of the store: the weight of an edge is 0 if its source is odd.
    std::vector<float> odd_left_out;
    data.store.for_each_edge([&](std::span<const edge> edges) {
        for (const edge& e : edges) odd_left_out.push_back(e.source % 2 == 0 ? 1.F : 0.F);
    });
    const auto by_id = [&](edge_index id) { return odd_left_out[static_cast<std::size_t>(id)]; };
    const auto check = [&](auto make) {
        const outcome expected = node_training(data, with).run(make);
        const outcome alike =
            node_training(data, with).run([&] { return weighted(make(), [](edge_index) { return 2.F; }); });
        const outcome even = node_training(data, with).run([&] { return weighted(make(), by_id); });
        CHECK(alike.epochs[0].sampled_edges == expected.epochs[0].sampled_edges);
        CHECK(alike.epochs[0].loss == doctest::Approx(expected.epochs[0].loss).epsilon(1e-4));
        CHECK(even.epochs[0].sampled_edges < expected.epochs[0].sampled_edges);
        CHECK(even.epochs[1].loss < even.epochs[0].loss);
    };
    check([&] { return neighbor_sampler<>(with.training.neighbors, 0); });
    check([&] { return dense_sampler<>(with.training.neighbors, 0); });

    // Edges drawn, batch by batch: no odd node except seeds.
    node_training parts(data, with);
    parts.states = {{.resident = {0, 1, 2, 3}}};
    graph_buffer whole(data.store, with.engines, neighbor_direction::in,
        graph_buffer::need(parts.states, data.store, neighbor_direction::in).bytes, parts.budget);
    whole.begin_epoch(parts.states, 0);
    const auto graph = whole.acquire(0);
    mini_batch_arena arena;
    std::vector<node_id> seeds(50);
    for (node_id v = 0; v < 50; ++v) seeds[v] = 4 * v + 1;
    weighted sampler(neighbor_sampler<>(with.training.neighbors, 0), by_id);
    const auto sample = sampler.sample({}, *graph, std::span<const node_id>(seeds), executor_ref(parts.on), arena);
    REQUIRE(sample.nodes.size() > 60);
    for (const node_id v : sample.nodes.subspan(50)) CHECK(v % 2 == 0);
}

namespace {

/// Task whose cutter returns its own memory, and cuts node b of batch b.
struct one_node_each {
    struct view {};
    struct cutter_type {
        std::vector<node_id> mine;
        seed_set cut(training_batch& b, const view& /*view*/) {
            mine.assign(3, static_cast<node_id>(b.key.number.index));
            return {mine};
        }
    };
    static constexpr bool repeats = false;
    void begin_epoch(const epoch_start& /*start*/) {}
    static std::shared_ptr<const view> acquire(const epoch_start& /*start*/, std::uint32_t /*state*/) {
        return std::make_shared<view>();
    }
    static std::uint64_t batches(const view& /*view*/) { return 2; }
    static cutter_type cutter() { return {}; }
};
static_assert(train_task<one_node_each>);

} // namespace

TEST_CASE("without a sampler a batch keeps its seeds while its cutter cuts the next one") {
    const serial_executor executor;
    one_node_each task;
    no_topology topology;
    sampled_batches batches(task, topology, make_no_hops, executor);
    const epoch_plan all{{.resident = {0}}};
    const epoch_start start{all, 0, {}, nullptr};
    batches.begin_epoch(start, {});
    const auto work = std::make_shared<const state_work>(batches.acquire(start, 0));
    training_batch first, second;
    for (training_batch* b : {&first, &second}) {
        b->key = {0, {0, 0, b == &first ? 0U : 1U}};
        b->work = work;
        batches.produce(*b, {});
    }
    CHECK(std::ranges::equal(first.nodes, std::vector<node_id>{0, 0, 0}));
    CHECK(std::ranges::equal(second.nodes, std::vector<node_id>{1, 1, 1}));
}

TEST_CASE("a dropped sample takes no memory") {
    training_batch b;
    b.seeds.resize(100);
    b.labels.resize(100);
    b.targets.resize(300);
    b.coverage.resize(1000);
    CHECK(b.sample_bytes() >= 6000);
    b.sparse.columns.resize(500);
    b.payload<std::vector<int>>().resize(10);
    b.drop_sample();
    CHECK(b.sample_bytes() == training_batch().sample_bytes());
    CHECK(b.sparse.columns.capacity() == 0);
    CHECK(b.payload<std::vector<int>>().empty());
}

TEST_CASE(
    "a stage of state scope runs once per state of an epoch, before its first batch is gathered, and may stop it") {
    const graph_data data = graph_data::planted(200, 4);
    set_up with = with_features();
    const auto make = [&] { return neighbor_sampler<>(with.training.neighbors, 0); };
    const outcome expected = node_training(data, with).run(make);
    std::vector<std::uint32_t> begun;
    node_training staged(data, with);
    const std::vector<pipeline_stage<training_batch>> transfer{
        {.name = "transfer", .scope = stage_scope::state, .before = stage::sample, .run = [&](training_batch& first) {
             CHECK(first.work->batches > 0);
             CHECK(first.key.number.index == 0);
             begun.push_back(first.key.number.state);
         }}};
    CHECK(staged.run(make, transfer) == expected);
    std::size_t states = 0;
    for (std::uint64_t e = 0; e < with.epochs; ++e) states += staged.all.order()(e).size();
    CHECK(begun.size() <= states); // states without training nodes have no batch
    CHECK(begun.size() > with.epochs);

    node_training failing(data, with);
    const std::vector<pipeline_stage<training_batch>> planted{
        {.name = "transfer", .scope = stage_scope::state, .run = [&](training_batch& first) {
             if (first.key.epoch == 1) throw error(errc::not_finite, "planted");
         }}};
    CHECK_THROWS_WITH_AS((void)failing.run(make, planted), doctest::Contains("planted"), error);

    // A stop in the stage trains the batches that were submitted, once each; the rest runs the stage again.
    for (const std::uint32_t at : {0U, 1U}) {
        std::stop_source stop;
        std::vector<std::uint32_t> again;
        node_training stopped(data, with);
        const std::vector<pipeline_stage<training_batch>> stopping{
            {.name = "transfer", .scope = stage_scope::state, .run = [&](training_batch& first) {
                 again.push_back(first.key.number.state);
                 if (again.size() == at + 1) stop.request_stop();
             }}};
        CHECK(stopped.run(make, stopping, stop.get_token()).weights == expected.weights);
        CHECK(again.size() >= begun.size());
    }
}

} // namespace test_train_sampled_batches
