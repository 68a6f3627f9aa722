#include <gneiss/train/trainers/mariusgnn.hpp>

#include <gneiss/train/trainers/hanoi.hpp>

#include <doctest/doctest.h>

#include <gneiss/cache/lru.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/graph/generate/planted_partition.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/order/in_memory.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/sample/weighted.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/train/macro_batch_reuse.hpp>
#include <gneiss/train/sampled_batches.hpp>

#include <sample/graphs.hpp>
#include <storage/buckets.hpp>
#include <storage/features.hpp>
#include <storage/support.hpp>
#include <support/cut_into.hpp>
#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>
#include <train/graph_harness.hpp>

#include <atomic>
#include <cmath>
#include <fstream>
#include <thread>
#include <tuple>

namespace test_train_mariusgnn {

using namespace graph_harness;

namespace {

/// Returns the accuracy on nodes that do not train, with all their neighbors.
double held_out_accuracy(gnn_harness& of) {
    std::vector<node_id> nodes;
    std::vector<class_id> labels;
    for (node_id v = 0; v < of.data.rows.nodes; ++v)
        if (v % 3 != 0) nodes.push_back(v), labels.push_back(of.data.labels[v]);
    std::vector<edge> edges;
    of.data.store.for_each_edge(
        [&](std::span<const edge> some) { edges.insert(edges.end(), some.begin(), some.end()); });
    const auto graph = test::whole_graph(of.data.rows.nodes, edges);
    dense_sampler<> sampler({.fanout = parse_fanout("all,all", of.direction())}, 1);
    mini_batch_arena arena;
    const auto sample = sampler.sample({}, graph, std::span<const node_id>(nodes), serial_executor{}, arena);
    layer_stack layers;
    layers.assign(sample, serial_executor{}, layer_stack::lists::forward);
    const std::vector<float> table = of.all_rows();
    const std::size_t learned = of.rows ? of.with.dim : 0, fixed = of.with.features ? graph_data::columns : 0,
                      width = learned + fixed;
    std::vector<float> in;
    for (const node_id v : sample.node_ids) {
        if (of.rows)
            in.insert(
                in.end(), &table[v * of.rows->layout().floats()], &table[v * of.rows->layout().floats()] + learned);
        in.insert(in.end(), &of.data.features[v * fixed], &of.data.features[v * fixed] + fixed);
    }
    const serial_executor executor;
    const auto scores =
        of.encode->forward(of.weights, layers, {.dense = {in.data(), sample.node_ids.size(), width}}, {}, executor);
    return softmax_cross_entropy(scores, std::span<const class_id>(labels), executor).accuracy();
}

/// The library's sampler as a custom type.
struct as_the_library {
    neighbor_sampler<> by;
    neighbor_sample<> sample(const batch_key& key, const resident_graph& graph, std::span<const node_id> seeds,
        const executor_ref& executor, mini_batch_arena& arena, std::span<const excluded_edge<>> excluded) {
        return by.sample(key, graph, seeds, executor, arena, excluded);
    }
};
static_assert(sampler_of<as_the_library, resident_graph>);

/// A device that draws and computes nothing.
struct idle_device : host_backend {
    void upload(const training_optimizers& /*by*/) {}
    void differentiate(training_batch& /*batch*/) {}
};
struct idle_sampler {
    [[nodiscard]] static drawn_sample sample(
        const batch_key& /*key*/, std::size_t /*slot*/, const graph_lists& /*graph*/, const seed_set& /*seeds*/) {
        return {};
    }
};

} // namespace

TEST_CASE("a node task learns communities: the loss falls, and held-out nodes are classified") {
    const graph_data data = graph_data::planted(600, 3);
    for (const sampler_kind sampler : {sampler_kind::dense, sampler_kind::neighbor})
        for (const bool rows : {false, true}) {
            CAPTURE(rows);
            set_up with;
            with.rows = rows;
            with.features = test::feature_form{};
            with.layers = "sage:16,sage:4";
            with.order = "memory";
            with.order_slots = with.buffer_slots = 3;
            with.training.neighbors.fanout = parse_fanout("8,8", neighbor_direction::both);
            with.training.sampler = sampler;
            with.training.pipeline = {.staleness = 2};
            with.epochs = 12;
            gnn_harness all(data, with);
            std::vector<training_statistics> epochs;
            all.run([&](mariusgnn_trainer& training, const auto& states) {
                for (std::uint64_t e = 0; e < with.epochs; ++e) epochs.push_back(training.run(states(e), e).model);
            });
            CHECK(epochs.front().examples == 200);
            CHECK(epochs.back().mean_loss() < .5 * epochs.front().mean_loss());
            CHECK(epochs.back().accuracy() > .85);
            CHECK(held_out_accuracy(all) > .75); // chance is a quarter
        }
}

TEST_CASE("each choice of a design fills its slot with the type of the table of slots") {
    const graph_data data = graph_data::planted(60, 3);
    for (const bool links : {false, true})
        for (const bool rows : {false, true}) {
            CAPTURE(links);
            CAPTURE(rows);
            set_up with;
            with.links = links;
            with.rows = rows;
            if (!rows) with.features = test::feature_form{};
            with.layers = links ? "sage:8,sage:8" : with.layers;
            gnn_harness all(data, with);
            all.run([&](mariusgnn_trainer& training, const auto&) {
                using nodes = sampled_batches<node_task, buffered_topology, any_graph_sampler>;
                using edges = sampled_batches<link_task<any_negatives>, buffered_topology, any_graph_sampler>;
                CHECK((training.batches().get_if<edges>() != nullptr) == links);
                CHECK((training.batches().get_if<nodes>() != nullptr) != links);
                CHECK((training.features().get_if<buffered_features>() != nullptr) == with.features.has_value());
                CHECK((training.features().get_if<no_features>() != nullptr) != with.features.has_value());
                CHECK((training.embeddings().get_if<buffered_embeddings>() != nullptr) == rows);
                CHECK((training.embeddings().get_if<no_embeddings>() != nullptr) != rows);
                CHECK((training.backend().get_if<cpu_encoder_backend<link_head>>() != nullptr) == links);
                CHECK((training.backend().get_if<cpu_encoder_backend<classification_head>>() != nullptr) != links);
            });
        }
}

TEST_CASE("a link task learns: the loss falls, with rows, features or both, on disk") {
    const graph_data data = graph_data::planted(300, 4, 2);
    for (const bool rows : {false, true})
        for (const bool features : {false, true}) {
            if (!rows && !features) continue;
            CAPTURE(rows);
            CAPTURE(features);
            set_up with;
            with.links = true;
            with.rows = rows;
            if (features) with.features = test::feature_form{};
            with.layers = "sage:16,sage:16";
            with.order = "comet";
            with.training.batch = 100;
            with.training.negatives = {.per_chunk = 50, .chunks = 1, .degree_fraction = .5};
            with.training.neighbors.fanout = parse_fanout("5,5", neighbor_direction::both);
            with.training.exclude_target_edges = true;
            with.training.pipeline = {.staleness = 4, .deterministic = true};
            with.epochs = 8;
            const outcome result = train(data, with);
            CHECK(result.epochs.front().examples == 2400);
            CHECK(result.epochs.back().mean_loss() < result.epochs.front().mean_loss());
            CHECK(result.epochs.back().mean_loss() <
                .85 * std::log(51.)); // random guessing; communities gain log 4 at most
        }
}

TEST_CASE(
    "a disk run equals the in-memory run of the same plan, bit for bit: rows, weights, relations, state and loss") {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        random_stream draw(random_key{seed, random_domain::user});
        const auto partitions = static_cast<std::uint32_t>(2 + draw.below(6));
        const graph_data data =
            graph_data::random(30 + draw.below(200), partitions, 1 + draw.below(3), 300 + draw.below(500), seed);
        set_up with;
        with.links = draw.below(2) == 0;
        const auto inputs = draw.below(3);
        with.rows = inputs != 0;
        if (inputs != 1)
            with.features = test::feature_form{
                .sparse = draw.below(2) == 0, .f16 = draw.below(2) == 0, .aligned = draw.below(2) == 0};
        with.layers =
            std::vector<std::string>{"sage:8,sage:8", "gcn:8,gcn:8", "sage:8:norm,linear:6,gat:4x2"}[draw.below(3)];
        with.optimizer = std::vector<std::string>{"sgd", "adagrad", "adam"}[draw.below(3)];
        if (with.optimizer == "sgd") with.rate = with.dense_rate = .002F;
        with.order = std::vector<std::string>{"beta", "comet"}[draw.below(2)];
        with.order_slots = partitions >= 4 ? 4 : 2;
        if (with.order == "comet" && partitions % 2 != 0) with.order = "beta";
        with.training.batch = 5 + draw.below(60);
        with.training.batch_from = draw.below(2) == 0 ? batch_scope::state : batch_scope::bucket;
        with.training.sampler = draw.below(2) == 0 ? sampler_kind::dense : sampler_kind::neighbor;
        with.training.neighbors.fanout =
            parse_fanout(std::vector<std::string>{"3,3", "2,all", "2+1,1+2"}[draw.below(3)],
                draw.below(2) == 0 ? neighbor_direction::both : neighbor_direction::in);
        with.training.exclude_target_edges = draw.below(2) == 0;
        with.training.seed = seed;
        with.training.pipeline.sample_workers = 1 + draw.below(2);
        with.training.coverage_correction = seed % 2 == 0 ? .8 : 0;
        CAPTURE(seed);
        CAPTURE(with.links);
        CAPTURE(with.layers);
        CAPTURE(with.order);
        with.buffer_slots = partitions; // all in memory
        const outcome in_memory = train(data, with);
        CHECK(in_memory.epochs.front().examples > 0);
        with.buffer_slots = with.order_slots;
        auto engines = storage_test::all_engines();
        engines.emplace_back("short transfers", [] {
            const auto injector = std::make_shared<fault_injector>(
                fault{.kind = fault_kind::short_transfer, .at = 2, .on = {.sync = false}});
            return any_engine(faulty(threads_engine{}, injector));
        });
        for (const auto& [name, engine] : engines) {
            CAPTURE(name);
            with.engines = engine;
            with.memory.reset();
            if (name == "memory") {
                with.memory.emplace();
                with.engines = [disk = *with.memory] { return any_engine(memory_engine(disk)); };
            }
            with.prefetch = static_cast<std::uint32_t>(draw.below(3));
            with.threads = 1 + draw.below(2);
            CHECK((train(data, with) == in_memory));
        }
    }
}

TEST_CASE("training stopped and resumed anywhere equals uninterrupted training; fixed staleness is repeatable") {
    const graph_data data = graph_data::random(120, 6, 2, 900, 3);
    for (const bool links : {false, true})
        for (const std::uint64_t staleness : {0U, 3U}) {
            set_up with;
            with.links = links;
            with.features = test::feature_form{};
            if (staleness == 0) with.optimizer = "adam"; // whose steps the position carries
            with.order_slots = with.buffer_slots = 3;
            with.training.batch = links ? 60 : 5;
            with.training.pipeline = {.staleness = staleness, .deterministic = true};
            const auto same = [](const outcome& a, const outcome& b) {
                return a.rows == b.rows && a.relations == b.relations && a.weights == b.weights && a.state == b.state;
            };
            const outcome whole = train(data, with);
            for (const std::uint64_t every : {1U, 4U, 11U}) {
                CAPTURE(every);
                CHECK(same(train(data, with, every), whole));
            }
            with.threads = 2;
            with.training.pipeline.sample_workers = 2;
            with.buffer_slots = 6;
            CHECK((train(data, with) == whole));
        }
}

namespace {

/// Options of a training run on macro-batches.
struct macro_run {
    std::uint32_t pinned = 1, macro = 2;
    std::function<bool(std::uint64_t epoch, std::uint32_t state, std::uint32_t passes, bool ready)> again{};
    std::uint64_t stop_every = 0; ///< resume from a checkpoint after this many batches
    bool ahead = true;            ///< loads the next epoch's first state after the last
    graph_buffer_options graph{};
    io_stats read{}; ///< features, output
};

outcome train_macro(const graph_data& data, const set_up& with, macro_run& options) {
    gnn_harness all(data, with);
    std::vector<node_id> training;
    for (node_id v = 0; v < data.rows.nodes; v += 2) training.push_back(v);
    const auto plan_of = [&](std::uint64_t epoch) {
        return macro_batches(data.rows.partitions, options.pinned, options.macro, 3, epoch);
    };
    std::vector<training_statistics> epochs;
    resume_position at{};
    while (at.epoch < with.epochs) {
        memory_budget budget;
        const tbb_executor executor(with.threads);
        std::uint64_t graph_bytes = 0, feature_bytes = 0;
        for (std::uint64_t e = 0; e < with.epochs; ++e) {
            epoch_plan two = plan_of(e).states;
            two.push_back(plan_of(e + 1).states.front());
            graph_bytes =
                std::max(graph_bytes, graph_buffer::need(two, data.store, all.direction(), options.graph).bytes);
            feature_bytes = std::max(feature_bytes, feature_buffer::need(two, *all.features).bytes);
        }
        feature_buffer features(*all.features, with.engines, feature_bytes, budget);
        graph_buffer graph(data.store, with.engines, all.direction(), graph_bytes, budget, options.graph);
        std::uint64_t epoch = at.epoch;
        const gnn_task task = classified_nodes{data.labels, [&](std::uint32_t s, std::vector<node_id>& out) {
                                                   append_training_nodes(plan_of(epoch), s, data.rows, training, out);
                                               }};
        hanoi_trainer run = make_hanoi(with.training,
            {.task = task,
                .encode = *all.encode,
                .weights = all.weights,
                .optimizer = all.dense,
                .row_optimizer = all.optimizer,
                .inputs = {.features = &features, .graph = graph}},
            executor, budget);
        std::stop_source stop;
        std::atomic<std::uint64_t> applied{0};
        training_observer observer;
        observer.on_batch = [&](const batch_key&, const training_statistics&) {
            if (options.stop_every != 0 && ++applied == options.stop_every) stop.request_stop();
        };
        if (options.again)
            observer.again = [&](std::uint32_t s, std::uint32_t passes, bool ready) {
                return options.again(epoch, s, passes, ready);
            };
        for (; epoch < with.epochs; epoch = at.epoch) {
            std::optional<buffer_state> ahead;
            if (options.ahead && epoch + 1 < with.epochs) ahead = plan_of(epoch + 1).states.front();
            const training_epoch done = run.run(plan_of(epoch).states, at, observer, stop.get_token(), ahead);
            epochs.push_back(done.model);
            at = done.position;
            if (done.stopped) break;
        }
        options.read += features.statistics();
    }
    return all.end(std::move(epochs));
}

bool same_weights(const outcome& a, const outcome& b) { return a.weights == b.weights && a.state == b.state; }

} // namespace

TEST_CASE(
    "macro-batches with pinned hubs: any store, graph form and thread count gives the same bits, hubs are read once") {
    const graph_data data = graph_data::random(test::cut_into({9, 60, 0, 31, 44, 2, 70, 25}), 1, 1500, 11);
    set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.training.batch = 7;
    with.training.seed = 4;
    with.epochs = 3;
    macro_run options;
    const outcome first = train_macro(data, with, options);
    CHECK(first.epochs.front().examples > 90);
    // Every partition is read at most once per epoch, and the hubs once in total.
    std::uint64_t others = 0;
    for (partition_id p = 1; p < data.rows.partitions; ++p) others += data.rows.size(p) * graph_data::columns * 4;
    CHECK(options.read.read_bytes < 3 * (others + 512 * 14) + data.rows.size(0) * graph_data::columns * 4 + 4096);
    for (const auto& [name, engine] : storage_test::all_engines()) {
        if (name == "memory") continue;
        CAPTURE(name);
        with.engines = engine;
        with.threads = 2;
        with.training.pipeline.sample_workers = 2;
        macro_run other{.ahead = false, .graph = {.form = graph_form::csr}};
        CHECK((train_macro(data, with, other) == first));
    }
    macro_run no_hubs{.pinned = 0};
    CHECK_FALSE(same_weights(train_macro(data, with, no_hubs), first));
}

TEST_CASE("recorded passes over a macro-batch are replayed to the same bits, and a resume within one changes nothing") {
    const graph_data data = graph_data::random(test::cut_into({9, 60, 0, 31, 44, 2, 70, 25}), 1, 1500, 12);
    set_up with;
    with.rows = false;
    with.features = test::feature_form{.sparse = true};
    with.training.batch = 7;
    macro_run once;
    const outcome plain = train_macro(data, with, once);
    // Simulates a slow disk: the second macro-batch is ready after three passes over the first.
    macro_batch_reuse recorder(4);
    macro_run slow{.again = [&](std::uint64_t epoch, std::uint32_t s, std::uint32_t passes, bool) {
        return recorder.again(epoch, s, passes, passes > 2);
    }};
    const outcome reused = train_macro(data, with, slow);
    CHECK(recorder.record().size() == 2);
    CHECK(recorder.record()[1][1] == 3);
    CHECK_FALSE(same_weights(reused, plain));
    std::uint64_t trained = 0;
    for (const training_statistics& epoch : reused.epochs) trained += epoch.examples;
    CHECK(trained > plain.epochs[0].examples + plain.epochs[1].examples);
    pass_record record = recorder.record();
    const auto replay = [&](std::uint64_t stop_every) {
        macro_batch_reuse by_record(1, {}, record);
        macro_run again{.again = [&](std::uint64_t epoch, std::uint32_t s, std::uint32_t passes,
                                     bool ready) { return by_record.again(epoch, s, passes, ready); },
            .stop_every = stop_every};
        with.threads = stop_every == 0 ? 2 : 1;
        const outcome result = train_macro(data, with, again);
        CHECK(by_record.record() == record);
        return result;
    };
    CHECK((replay(0) == reused));
    for (std::size_t epoch = 0; epoch < record.size(); ++epoch) // passes of all numbers, as an older run recorded them
        for (std::size_t s = 0; s < record[epoch].size(); ++s)
            if (record[epoch][s] != 0) record[epoch][s] = 1 + static_cast<std::uint32_t>((epoch + s) % 4);
    const outcome varied = replay(0);
    CHECK_FALSE(same_weights(varied, reused));
    for (const std::uint64_t every : {1U, 5U, 8U}) CHECK(same_weights(replay(every), varied));
    // A pass draws other batches than the previous one.
    const node_batches batches({1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 1, 0, 0);
    std::vector<node_id> one, two;
    batches.choose(0, one);
    batches.choose(0, two, 1);
    CHECK(one != two);
    std::ranges::sort(one);
    std::ranges::sort(two);
    CHECK(one == two);
}

TEST_CASE("one batch steps rows and weights by manually combined gradients of encoder and task") {
    const graph_data data = graph_data::random(90, 1, 2, 500, 8);
    std::vector<edge> edges;
    data.store.for_each_edge([&](std::span<const edge> some) { edges.insert(edges.end(), some.begin(), some.end()); });
    const auto graph = test::whole_graph(data.rows.nodes, edges);
    for (const bool links : {false, true})
        for (const sampler_kind kind : {sampler_kind::dense, sampler_kind::neighbor}) {
            set_up with;
            with.links = links;
            with.layers = "sage:8:dropout=0,sage:4:dropout=0";
            with.optimizer = "sgd";
            with.rate = with.dense_rate = 1;
            with.order = "memory";
            with.order_slots = with.buffer_slots = 1;
            with.training.batch = 1000; // all in one
            with.training.sampler = kind;
            with.epochs = 1;
            gnn_harness by_hand(data, with);
            const std::vector<float> before = by_hand.all_rows();

            // seeds
            const serial_executor executor;
            mini_batch_arena link_arena, arena;
            const epoch_plan states = in_memory_order(1)(0);
            std::optional<link_batch> batch;
            std::vector<node_id> seeds;
            std::vector<class_id> labels;
            if (links) {
                memory_budget budget;
                edge_buffer buffer(
                    {.size = [&](edge_bucket) { return edges.size(); },
                        .load = [&](edge_bucket, std::span<edge> to) { std::ranges::copy(edges, to.begin()); }},
                    {.partitions = 1}, budget);
                buffer.begin_epoch(states);
                const link_state of(states[0], data.rows, buffer.acquire(0), 1000, batch_scope::state, 0, 0, 0);
                batch = link_sampler(with.training.negatives, 0).sample({}, of, link_arena);
                seeds.assign(batch->nodes.begin(), batch->nodes.end());
            } else {
                std::vector<node_id> nodes;
                training_nodes(data, states)(0, nodes);
                const edge_index count = nodes.size();
                const state_batches cut(std::span(&count, 1), 1000, edge_shuffle_key(0, 0, 0), batch_scope::state);
                std::vector<edge_position> at(nodes.size());
                cut.fill(0, at);
                for (const edge_position& p : at)
                    seeds.push_back(nodes[p.edge]), labels.push_back(data.labels[seeds.back()]);
            }
            // sample, forward, task, backward
            layer_stack layers;
            std::vector<node_id> inputs;
            if (kind == sampler_kind::dense) {
                dense_sampler<> sampler(with.training.neighbors, 0);
                const auto sample = sampler.sample({}, graph, std::span<const node_id>(seeds), executor, arena);
                layers.assign(sample, executor);
                inputs.assign(sample.node_ids.begin(), sample.node_ids.end());
            } else {
                neighbor_sampler<> sampler(with.training.neighbors, 0);
                const auto sample = sampler.sample({}, graph, std::span<const node_id>(seeds), executor, arena);
                layers.assign(sample, executor);
                inputs.assign(sample.nodes.begin(), sample.nodes.end());
            }
            std::vector<float> in, gradients(inputs.size() * with.dim);
            for (const node_id v : inputs) in.insert(in.end(), &before[v * with.dim], &before[v * with.dim] + with.dim);
            const matrix_view<float> rows(in.data(), inputs.size(), with.dim),
                to(gradients.data(), inputs.size(), with.dim);
            const auto out = by_hand.encode->forward(by_hand.weights, layers, {.dense = rows}, {}, executor);
            if (links) {
                std::vector<float> g(out.rows() * out.columns());
                const matrix_view<float> seed_gradients(g.data(), out.rows(), out.columns());
                sparse_gradients relation_gradients;
                by_hand.model->forward_backward(
                    *batch, out, by_hand.relations.values(), seed_gradients, relation_gradients, executor);
                by_hand.encode->backward(by_hand.weights, seed_gradients, to, executor);
                for (std::size_t i = 0; i < relation_gradients.ids().size(); ++i)
                    for (std::size_t c = 0; c < 4; ++c)
                        by_hand.relations.table()(relation_gradients.ids()[i], c) -= relation_gradients.rows()(i, c);
            } else {
                softmax_cross_entropy(out, std::span<const class_id>(labels), executor);
                by_hand.encode->backward(by_hand.weights, out, to, executor);
            }
            outcome expected = by_hand.end({});
            for (std::size_t i = 0; i < inputs.size(); ++i)
                for (std::size_t c = 0; c < with.dim; ++c) expected.rows[inputs[i] * with.dim + c] -= to(i, c);
            for (std::size_t i = 0; i < expected.weights.size(); ++i)
                expected.weights[i] -= by_hand.weights.gradients()[i];

            const outcome trained = train(data, with);
            CHECK((trained.rows == expected.rows));
            CHECK(trained.rows != before);
            CHECK((trained.weights == expected.weights));
            CHECK((trained.relations == expected.relations));
        }
}

TEST_CASE("excluded edges of a batch are not drawn, features are the same in every form, and isolated nodes train") {
    const graph_data data = graph_data::random(60, 2, 1, 200, 4);
    set_up with;
    with.links = true;
    with.layers = "sage:8";
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    with.epochs = 1;
    with.training.batch = 1000; // all edges in one
    with.training.neighbors.fanout = parse_fanout("all", neighbor_direction::both);
    CHECK(train(data, with).epochs[0].sampled_edges > 350); // 400 less the self loops
    with.training.exclude_target_edges = true;
    CHECK(train(data, with).epochs[0].sampled_edges == 0);

    with.links = false;
    with.layers = "sage:8:dropout=0,sage:4";
    with.training.neighbors.fanout = parse_fanout("3,3");
    with.features = test::feature_form{};
    const outcome dense = train(data, with);
    with.features = test::feature_form{.f16 = true}; // f16 holds these values exactly
    CHECK((train(data, with) == dense));
    with.features = test::feature_form{.sparse = true}; // summed in another order
    const outcome sparse = train(data, with);
    CHECK(sparse.epochs[0].loss == doctest::Approx(dense.epochs[0].loss).epsilon(1e-4));
    with.features = test::feature_form{.sparse = true, .f16 = true};
    CHECK((train(data, with) == sparse));

    with.features.reset();
    gnn_harness isolated(data, with);
    const std::vector<float> before = isolated.all_rows();
    const std::vector<float> after = train(data, with).rows;
    std::size_t changed = 0, trained = 0;
    for (node_id v = 40; v < 60; ++v) { // isolated nodes
        const std::size_t at = v * isolated.rows->layout().floats();
        changed += !std::equal(&before[at], &before[at] + with.dim, &after[at]);
        trained += v % 3 == 0 && data.labels[v] != unlabeled;
    }
    CHECK(changed == trained);
    CHECK(trained > 3);
}

TEST_CASE(
    "the coverage correction changes training where neighbors are missing, and nowhere else, whatever the threads") {
    const graph_data data = graph_data::random(150, 4, 3, 900, 2);
    for (const bool links : {false, true})
        for (const std::string layers : {"sage:8,sage:4", "gcn:8,sage:4", "gat:4x2,sage:8:sum,sage:4:max"}) {
            CAPTURE(links);
            CAPTURE(layers);
            set_up with;
            with.links = links;
            with.features = test::feature_form{};
            with.layers = layers;
            with.training.neighbors.fanout =
                parse_fanout(layers.starts_with("gat") ? "3,3,3" : "3,3", neighbor_direction::both);
            for (const bool whole : {true, false}) {
                with.order = whole ? "memory" : "beta";
                with.order_slots = with.buffer_slots = whole ? 4 : 2;
                with.threads = 1;
                with.training.pipeline.sample_workers = 1;
                with.training.coverage_correction = 0;
                const outcome plain = train(data, with);
                with.training.coverage_correction = .8;
                const outcome corrected = train(data, with);
                CHECK((corrected == plain) == (whole || layers.starts_with("gat"))); // no other layer is corrected
                with.threads = 2;
                with.training.pipeline.sample_workers = 3;
                CHECK(train(data, with) == corrected);
            }
        }
    set_up with;
    with.training.coverage_correction = .8;
    CHECK_THROWS_WITH_AS(
        (void)train(data, with, 0, [](gnn_harness&) { return any_backend(std::in_place_type<idle_device>); }),
        doctest::Contains("the coverage correction is computed on the CPU"), error);
}

TEST_CASE(
    "a custom sampler that draws like the library's trains the same bits, on nodes and links, whatever the threads") {
    const graph_data data = graph_data::random(150, 4, 3, 900, 2);
    for (const bool links : {false, true}) {
        CAPTURE(links);
        set_up with;
        with.links = links;
        with.features = test::feature_form{};
        with.layers = "sage:8,sage:4";
        with.training.seed = 5;
        with.training.neighbors.fanout = parse_fanout("3,3", neighbor_direction::both);
        with.training.exclude_target_edges = links;
        const auto bytes = [&] {
            std::uint64_t result = 0;
            gnn_harness all(data, with);
            all.run([&](mariusgnn_trainer&, const auto&) { result = all.bound.bytes(); });
            return result;
        };
        const outcome dense = train(data, with);
        with.training.sampler = sampler_kind::neighbor;
        const outcome expected = train(data, with);
        const std::uint64_t bound = bytes();
        CHECK_FALSE(dense == expected);
        with.training.sampler = sampler_kind::dense; // unused
        with.training.own_sampler = [options = with.training.neighbors] { return as_the_library{{options, 5}}; };
        CHECK(bytes() == bound);
        CHECK(train(data, with) == expected);
        with.threads = 2;
        with.training.pipeline.sample_workers = 3;
        CHECK(train(data, with) == expected);
        CHECK(train(data, with, 3).weights == expected.weights);
        if (links) {
            with.training.exclude_target_edges = false;
            CHECK_FALSE(train(data, with) == expected);
        }
        with.training.own_sampler = [options = with.training.neighbors] {
            return weighted(neighbor_sampler<>(options, 5), [](edge_index) { return 0.F; });
        };
        CHECK(train(data, with).epochs[0].sampled_edges == 0);
    }
}

TEST_CASE("a batch over the memory of batches runs alone: any capacity trains the bits of a roomy run") {
    for (std::uint64_t seed = 0; seed < 4; ++seed)
        for (const bool links : {false, true}) {
            const graph_data data = graph_data::random(400, 4, 2, 3000, seed);
            CAPTURE(seed);
            CAPTURE(links);
            set_up with;
            with.links = links;
            with.rows = links;
            if (!links) with.features = test::feature_form{};
            with.layers = "sage:8,gcn:8:residual";
            if (!links) with.layers = "gat:2x4,sage:4:norm";
            with.training.batch = 20;
            with.training.sampler = seed % 2 == 0 ? sampler_kind::dense : sampler_kind::neighbor;
            with.training.neighbors.fanout =
                parse_fanout("3,all", neighbor_direction::both); // some batches are far larger
            with.training.exclude_target_edges = links;
            const outcome roomy = train(data, with);
            batch_profile seen;
            {
                memory_budget budget;
                gnn_harness all(data, with);
                graph_buffer graph(data.store, with.engines, all.direction(),
                    graph_buffer::need(all.order()(0), data.store, all.direction()).bytes, budget);
                bucket_reader reader(data.store, with.engines);
                edge_buffer edges(reader.source(), {}, budget);
                const epoch_plan states = all.order()(0);
                const auto profile = [&](const gnn_task& task) {
                    return profile_gnn(with.training, task, *all.encode, graph, states, 4, serial_executor{});
                };
                const auto draw = [&] {
                    if (links) return profile(predicted_links{*all.model, all.relations, edges});
                    return profile(classified_nodes{data.labels, training_nodes(data, states)});
                };
                seen = draw();
                CHECK(seen.batches != 0);
                CHECK(seen.batches <= 4);
                CHECK(seen.nodes != 0);
                const batch_profile again = draw();
                CHECK(std::tuple(again.batches, again.nodes, again.sample, again.compute) ==
                    std::tuple(seen.batches, seen.nodes, seen.sample, seen.compute));
                all.run([&](mariusgnn_trainer&, const auto&) { CHECK(seen.sample <= all.bound.sample); });
            }
            for (const std::uint64_t share : {0, 1, 2, 3}) { // of what was seen; 0: nothing fits with others
                CAPTURE(share);
                with.training.sample_memory = seen.sample * share / 2 + 1;
                with.training.encoder_memory = seen.compute * share / 2 + 1;
                with.training.row_memory = share == 0 ? 1 : 0;
                with.training.batches_in_flight = 1 + share;
                with.training.pipeline.sample_workers = 1 + share % 3;
                with.threads = 1 + share % 2;
                CHECK(train(data, with) == roomy);
            }
            with.training.pipeline.staleness = 3; // no wait is for a batch that waits itself
            with.training.batches_in_flight = 0;
            const outcome stale = train(data, with);
            CHECK(stale.epochs.size() == roomy.epochs.size());
            for (std::size_t e = 0; e < roomy.epochs.size(); ++e)
                CHECK(stale.epochs[e].examples == roomy.epochs[e].examples);
        }
}

TEST_CASE("batches are profiled in a state that has the largest: those of a state are of equal sizes") {
    const graph_data data = graph_data::random(400, 4, 2, 0, 1); // without edges, batches read their seeds
    set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.layers = "sage:4";
    with.training.batch = 20;
    with.training.neighbors.fanout = parse_fanout("3", neighbor_direction::both);
    const gnn_harness all(data, with);
    buffer_state whole;
    for (partition_id p = 0; p < data.rows.partitions; ++p) whole.resident.push_back(p);
    for (const std::vector<node_id>& sizes : {std::vector<node_id>{21, 40, 22}, {20, 21, 22}, {3, 1, 21}, {21, 5, 3},
             {0, 0, 0}}) { // training nodes of each state
        const epoch_plan states(sizes.size(), whole);
        memory_budget budget;
        graph_buffer graph(data.store, with.engines, all.direction(),
            graph_buffer::need(states, data.store, all.direction()).bytes, budget);
        std::uint64_t largest = 0;
        for (const std::uint64_t nodes : sizes)
            if (nodes != 0) largest = std::max(largest, ceil_div(nodes, ceil_div(nodes, with.training.batch)));
        const auto nodes_of = [&](std::uint32_t s, std::vector<node_id>& out) {
            for (node_id v = 0; v < sizes[s]; ++v) out.push_back(s + static_cast<node_id>(sizes.size()) * v);
        };
        const batch_profile seen = profile_gnn(
            with.training, classified_nodes{data.labels, nodes_of}, *all.encode, graph, states, 4, serial_executor{});
        CHECK(seen.nodes == largest);
        CHECK((seen.batches == 0) == (largest == 0));
    }
}

TEST_CASE("features read row by row train the bits of resident ones; what is read before it is decoded is charged") {
    const graph_data data = graph_data::random(200, 1, 1, 1500, 6);
    for (const bool f16 : {false, true}) {
        set_up with;
        with.rows = false;
        with.features = test::feature_form{.f16 = f16};
        with.layers = "sage:8,sage:4";
        with.training.batch = 10;
        const epoch_plan states{buffer_state{.resident = {0}}};
        struct result {
            double loss = 0;
            std::uint64_t charged = 0, nodes = 0;
        };
        const auto train = [&](bool row_by_row, std::size_t slots) {
            gnn_harness all(data, with);
            const feature_store& store = *all.features;
            memory_budget budget;
            const tbb_executor executor(1);
            graph_buffer graph(data.store, with.engines, all.direction(),
                graph_buffer::need(states, data.store, all.direction()).bytes, budget);
            feature_buffer features(store, with.engines, feature_buffer::need(states, store).bytes, budget);
            const feature_files::array& values = store.file(feature_part::values);
            any_row_source source(std::in_place_type<disk_rows>, with.engines,
                stored_rows{values.path, values.checksums.data_offset(), data.rows.nodes, store.row_bytes()},
                gather_options{}, executor, budget);
            cached_rows<any_row_source> cache(source, slots, slot_table_kind::hashed, executor, budget);
            any_cache_policy policy = lru(slots);
            const feature_rows rows{.source = source,
                .cache = slots == 0 ? nullptr : &cache,
                .policy = slots == 0 ? nullptr : &policy,
                .columns = graph_data::columns,
                .type = store.type(),
                .normalized = store.normalized()};
            const graph_inputs inputs = row_by_row ? graph_inputs{.stored_features = rows, .graph = graph}
                                                   : graph_inputs{.features = &features, .graph = graph};
            const auto of_both = [&] {
                (void)make_mariusgnn(with.training,
                    {.task = classified_nodes{data.labels, training_nodes(data, states)},
                        .encode = *all.encode,
                        .weights = all.weights,
                        .optimizer = all.dense,
                        .inputs = {.features = &features, .stored_features = rows, .graph = graph}},
                    executor, budget);
            };
            CHECK_THROWS_WITH_AS(of_both(), doctest::Contains("not from several of them"), error);
            const std::uint64_t before = budget.used();
            const gnn_parts parts{.task = classified_nodes{data.labels, training_nodes(data, states)},
                .encode = *all.encode,
                .weights = all.weights,
                .optimizer = all.dense,
                .inputs = inputs};
            mariusgnn_trainer training = make_mariusgnn(with.training, parts, executor, budget);
            const std::uint64_t charged = budget.used() - before;
            return result{training.run(states, 0).model.loss, charged,
                bound_gnn_memory(with.training, parts).batch.rows / (graph_data::columns * sizeof(float))};
        };
        const result resident = train(false, 0), read = train(true, 0), cached = train(true, 20);
        CHECK(read.loss == resident.loss);
        CHECK(cached.loss == resident.loss);
        CHECK(read.charged - resident.charged ==
            (f16 ? resident.nodes * (2 * graph_data::columns + 2 * graph_data::columns / 8) : 0));
        CHECK(cached.charged - read.charged == 24 * resident.nodes);
    }
}

TEST_CASE(
    "samples of a custom sampler are bounded like the library's: a larger one is an error, as is a device that draws") {
    const graph_data data = graph_data::planted(2000, 2);
    set_up with;
    with.features = test::feature_form{};
    with.rows = false;
    with.layers = "sage:8,sage:4";
    with.order = "memory";
    with.order_slots = with.buffer_slots = 2;
    with.epochs = 1;
    with.training.batch = 500;
    with.training.neighbors.fanout = parse_fanout("1,1", neighbor_direction::both);
    with.training.own_sampler = [] {
        return as_the_library{{{.fanout = parse_fanout("1,1", neighbor_direction::both)}, 5}};
    };
    CHECK(train(data, with).epochs[0].examples > 0);
    with.training.own_sampler = [] {
        return as_the_library{{{.fanout = parse_fanout("all,all", neighbor_direction::both)}, 5}};
    };
    CHECK(test::code_of([&] { (void)train(data, with); }) == errc::over_budget);
    with.training.own_sampler = [] {
        return as_the_library{{{.fanout = parse_fanout("1", neighbor_direction::both)}, 5}};
    };
    CHECK_THROWS_WITH_AS((void)train(data, with), doctest::Contains("a sample of 1 hops for 2 layers"), error);
    with.training.device_sampler.emplace(std::make_shared<idle_sampler>());
    CHECK_THROWS_WITH_AS((void)train(data, with), doctest::Contains("a device's sampler needs its backend"), error);
    CHECK_THROWS_WITH_AS(
        (void)train(data, with, 0, [](gnn_harness&) { return any_backend(std::in_place_type<idle_device>); }),
        doctest::Contains("a sampler of your own draws on the CPU"), error);
}

TEST_CASE("impossible training is refused with its reason, and errors of stages are rethrown") {
    graph_data data = graph_data::random(60, 3, 1, 300, 4);
    set_up with;
    with.layers = "sage:8,sage:4";
    with.features = test::feature_form{};
    const auto fails = [](gnn_harness& all, std::uint64_t every, errc code, const std::string& what,
                           const epoch_plan* fixed = nullptr) {
        std::string message;
        try {
            all.run(
                [&](mariusgnn_trainer& training, const auto& states) {
                    try {
                        for (std::uint64_t e = 0; e < 2; ++e) (void)training.run(states(e), e);
                    } catch (const error&) {
                        CHECK_THROWS_AS((void)training.run(states(0), 0), error); // and again
                        throw;
                    }
                },
                every, fixed);
        } catch (const error& e) {
            CHECK(e.code() == code);
            message = e.what();
        }
        CAPTURE(message);
        CHECK(message.find(what) != std::string::npos);
    };
    SUBCASE("no training nodes") {
        gnn_harness all(data, with);
        const epoch_plan states{{{0, 1}, {}}, {{1, 2}, {}}};
        fails(all, 0, errc::invalid_argument, "nothing to train", &states);
    }
    SUBCASE("an invalid label names its node") {
        data.labels[33] = 4;
        gnn_harness all(data, with);
        fails(all, 3, errc::out_of_range, "node 33 has the label 4 of 4 classes");
    }
    SUBCASE("a node that trains in a state where it is not resident") {
        gnn_harness all(data, with);
        const epoch_plan states{{{0, 1}, {}}};
        all.run(
            [&](mariusgnn_trainer& training, const auto&) {
                const epoch_plan other{{{1, 2}, {}}};
                CHECK_THROWS_WITH_AS((void)training.run(other, 0), doctest::Contains("not resident"), error);
            },
            3, &states);
    }
    SUBCASE("damaged features") {
        gnn_harness all(data, with);
        std::fstream file(
            all.features->file(feature_part::values).path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(4096 + static_cast<std::streamoff>(all.features->range(2, feature_part::values).offset));
        file.put('\x7f');
        file.close();
        fails(all, 3, errc::corrupt, "numbers");
    }
    SUBCASE("NaN features") {
        data.features[50 * graph_data::columns] = std::numeric_limits<float>::quiet_NaN();
        gnn_harness all(data, with);
        fails(all, 1, errc::not_finite, "not a finite number");
    }
    SUBCASE("a batch larger than its limit") {
        with.training.batch_memory = 1000;
        gnn_harness all(data, with);
        fails(all, 3, errc::over_budget, "batch");
    }
    SUBCASE("inconsistent parts") {
        with.training.neighbors.fanout = parse_fanout("3");
        gnn_harness all(data, with);
        CHECK_THROWS_AS(all.run([](mariusgnn_trainer&, const auto&) {}), error);
        with.training.neighbors.fanout = parse_fanout("3,3");
        with.links = true;
        with.layers = "sage:8,sage:6";
        gnn_harness other(data, with);
        other.model.emplace(make_link_model("dot", "softmax", 8));
        CHECK_THROWS_AS(other.run([](mariusgnn_trainer&, const auto&) {}), error);
    }
    SUBCASE("rows and relations without space for the optimizer's state") {
        with.features.reset();
        with.links = true;
        gnn_harness all(data, with);
        const dense_optimizer dense = all.dense;
        all.run([&](mariusgnn_trainer& training, const auto&) {
            CHECK_THROWS_WITH_AS(training.set_optimizers({make_row_optimizer("adam", 1), dense}),
                doctest::Contains("rows of relations"), error);
            training.set_optimizers({make_row_optimizer("adagrad", 1), dense});
        });
        all.relations = embedding_table(all.relations.rows(), {all.relations.layout().dim, 0});
        CHECK_THROWS_WITH_AS(
            all.run([](mariusgnn_trainer&, const auto&) {}), doctest::Contains("rows of relations have 0"), error);
        all.optimizer = make_row_optimizer("adam", 1);
        CHECK_THROWS_WITH_AS(
            all.run([](mariusgnn_trainer&, const auto&) {}), doctest::Contains("rows of nodes"), error);
    }
}

TEST_CASE("frozen nodes, relations and weights of a GNN keep their bits with their state, and the rest trains") {
    const graph_data data = graph_data::random(200, 4, 3, 900, 6);
    for (const bool links : {true, false}) {
        CAPTURE(links);
        set_up with;
        with.links = links;
        with.epochs = 0;
        const outcome first = train(data, with);
        with.epochs = 2;
        for (const frozen_parts frozen :
            {frozen_parts{true, false, false}, {false, true, false}, {false, false, true}, {true, links, false}}) {
            with.frozen = frozen;
            if (frozen.relations && !links) {
                CHECK_THROWS_WITH_AS(
                    (void)train(data, with), doctest::Contains("frozen relations are for link prediction"), error);
                continue;
            }
            const outcome result = train(data, with);
            CHECK((result.rows == first.rows) == frozen.nodes);
            if (links) CHECK((result.relations == first.relations) == frozen.relations);
            CHECK((result.weights == first.weights) == frozen.weights);
            CHECK((result.state == first.state) == frozen.weights);
        }
        with.rows = false;
        with.features = test::feature_form{};
        with.frozen = {true, false, false};
        CHECK_THROWS_WITH_AS((void)train(data, with), doctest::Contains("frozen nodes are learned rows"), error);
    }
}

} // namespace test_train_mariusgnn
