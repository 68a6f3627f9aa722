#include <gneiss/cuda/train/device_macro_batch.cuh>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>
#include <gneiss/cuda/train/device_sampling.cuh>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/train/trainers/joestar.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <simt/sample/support.hpp>
#include <train/stored_graph.hpp>

namespace test_simt_train_device_macro_batch {

using namespace gneiss;
using namespace gneiss::test::stored_graph;

namespace {

/// Places of the work of the second stage.
struct places {
    bool sample = false, rows = false; ///< on the device; else on the host
    bool recorded = false;
    bool fused = true;
};

struct set_up {
    second_stage form = second_stage::hops;
    std::string_view first = "4,3", second = "all,all"; ///< fan-outs
    places on{};
    std::string_view features = "disk", layers = "sage:8,sage:4";
    std::uint64_t large_batch = 40, batch = 10;
    std::uint32_t epochs = 3;
    std::size_t in_flight = 2, sample_workers = 1;
    bool delta = true, claims_rows = false;       ///< rows are said to be on the device
    std::uint64_t missing = 0;                    ///< rows for which the device has no room
    bool halves = false;                          ///< it keeps rows of f16, whatever is stored
    std::uint64_t rows = 0, nodes = 0, edges = 0; ///< room on the device; 0: for all
};

/// Training in two stages on the emulated device.
struct trained_on_device {
    const graph_data& data;
    set_up with;
    memory_budget budget{};
    tbb_executor executor{1};
    std::vector<layer_options> layers;
    network net;
    memory_csc graph;
    std::optional<any_row_source> source{};
    std::optional<feature_store> store{};
    std::unique_ptr<feature_buffer> buffer{};
    std::shared_ptr<cuda::device_macro_batches> macros{};
    std::shared_ptr<cuda::device_sampling> sampling{};
    std::optional<any_backend> backend{};
    std::optional<joestar_trainer> training{};

    trained_on_device(const graph_data& of, const set_up& options)
        : data(of),
          with(options),
          layers(parse_layers(std::string(with.layers), {.dropout = .2})),
          net(of.features.sparse() ? input_columns{.dense = 0, .sparse = columns}
                                   : input_columns{.dense = columns, .sparse = 0},
              layer_factories(layers.begin(), layers.end())),
          graph(csc_files{.in = data.directory / "csc", .out = {}}, budget) {
        const auto first = parse_fanout(std::string(with.first)), second = parse_fanout(std::string(with.second));
        const feature_input input = features();
        const bool floats = std::holds_alternative<std::shared_ptr<const resident_features>>(input) ||
            data.features.normalized || data.features.type == feature_type::int8;
        const std::uint64_t nodes = with.nodes != 0 ? with.nodes : data.rows.nodes,
                            rows = with.rows != 0 ? with.rows : (with.delta ? 1 : 2) * data.rows.nodes;
        if (with.on.sample || with.on.rows)
            macros = std::make_shared<cuda::device_macro_batches>(budget,
                device_macro_batches_setup{.nodes = nodes,
                    .edges = with.edges != 0 ? with.edges : 8 * data.rows.nodes,
                    .lists = !with.on.sample              ? 0
                        : with.form == second_stage::hops ? static_cast<std::uint32_t>(first.size())
                                                          : 1,
                    .rows = with.on.rows ? rows - with.missing : 0,
                    .columns = columns,
                    .type = with.halves ? feature_type::f16
                        : floats        ? feature_type::f32
                                        : data.features.type,
                    .fused = with.on.fused});
        if (with.on.sample)
            sampling = std::make_shared<cuda::device_sampling>(budget,
                device_sampling_setup{.nodes = nodes,
                    .edges = macros->setup().edges,
                    .neighbors = {.fanout = bounded_fanout(with.form, first, second)},
                    .sampler = sampler_kind::neighbor,
                    .seed = 9,
                    .seeds = with.batch,
                    .lists_of_inputs = cuda::device_network::needs_lists_of_inputs(setup(), false),
                    .recorded = with.on.recorded,
                    .ids_on_host = !(with.on.recorded && with.on.rows)},
                macros);
        backend.emplace(std::in_place_type<cuda::device_node_backend>, budget, setup(),
            std::optional<device_embeddings>(), sampling, static_cast<const device_features*>(nullptr), macros);
        joestar_parts parts{.first_stage = make_sampler(graph, sampler_kind::neighbor, {.fanout = first}, 9),
            .features = input,
            .task = classified_nodes{data.labels,
                [this](std::uint32_t /*state*/, std::vector<node_id>& out) { out = data.train; }},
            .encode = net.encode,
            .weights = net.weights,
            .optimizer = net.dense,
            .backend = &*backend};
        if (sampling) parts.second_on_device.emplace(sampling);
        training.emplace(make_joestar({.batch = with.batch,
                                          .large_batch = with.large_batch,
                                          .second = {.fanout = second},
                                          .macro_batches = {.form = with.form,
                                              .rows = rows,
                                              .delta = with.delta,
                                              .device = macros,
                                              .rows_on_device = with.on.rows || with.claims_rows},
                                          .seed = 9,
                                          .rows_in_flight = with.in_flight,
                                          .sample_workers = with.sample_workers},
            parts, executor, budget));
    }
    [[nodiscard]] network_setup setup() {
        return {.layers = layers,
            .in = net.encode.inputs(),
            .weights = net.weights,
            .seed = 9,
            .recorded = with.on.recorded};
    }
    [[nodiscard]] feature_input features() {
        if (with.features == "memory") {
            store.emplace(data.features, row_partitioning{data.rows.nodes, 1});
            const epoch_plan all{buffer_state{.resident = {0}, .edge_buckets = {}}};
            buffer =
                std::make_unique<feature_buffer>(*store, threads(), feature_buffer::need(all, *store).bytes, budget);
            buffer->begin_epoch(all);
            return std::shared_ptr<const resident_features>(buffer->acquire(0));
        }
        source.emplace(std::in_place_type<disk_rows>, threads(), data.stored(), gather_options{}, executor, budget);
        return feature_rows{
            .source = *source, .columns = columns, .type = data.features.type, .normalized = data.features.normalized};
    }
    [[nodiscard]] epoch_plan states(std::uint64_t epoch) const {
        return large_batches(data.train, with.large_batch, 9, epoch).states();
    }
    /// Outcome and calls of an epoch.
    struct epoch {
        training_statistics model;
        cuda::device_calls calls;
    };
    std::vector<epoch> seen{};

    outcome operator()() {
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < with.epochs; ++e) {
            const cuda::device_calls before = cuda::calls_so_far();
            seen.push_back({training->run(states(e), e).model, {}});
            seen.back().calls = cuda::calls_so_far() - before;
            losses.push_back(seen.back().model.loss);
        }
        return net.end(std::move(losses));
    }
};

outcome train(const graph_data& data, const set_up& options) { return trained_on_device(data, options)(); }

/// The combinations that a device has a part in.
constexpr places all_places[] = {{.sample = true}, {.rows = true}, {.sample = true, .rows = true},
    {.sample = true, .rows = true, .fused = false}, {.recorded = true}, {.sample = true, .recorded = true},
    {.rows = true, .recorded = true}, {.sample = true, .rows = true, .recorded = true}};

} // namespace

TEST_CASE("simt.train.device_macro_batch: samples of macro-batches on the device are those of the CPU's second stage, "
          "in each room and recorded") {
    const graph_data data(400);
    memory_budget budget;
    const memory_csc graph(csc_files{.in = data.directory / "csc", .out = {}}, budget);
    using simt_sample::fetched;
    for (const auto& [form, of_first, of_second] :
        {std::tuple{second_stage::hops, "4,3,2", "all,all,all"}, {second_stage::hops, "all,2", "all,all"},
            {second_stage::lists, "4,3", "all,all"}, {second_stage::lists, "6,5", "3,2"},
            {second_stage::lists, "all,all", "40,1"}, {second_stage::lists, "9", "2"}}) {
        CAPTURE(of_first);
        CAPTURE(of_second);
        const auto first = parse_fanout(of_first), second = parse_fanout(of_second);
        const auto macros = std::make_shared<cuda::device_macro_batches>(budget,
            device_macro_batches_setup{.nodes = 400,
                .edges = 6000,
                .lists = form == second_stage::hops ? static_cast<std::uint32_t>(first.size()) : 1});
        cuda::device_sampling device(budget,
            {.nodes = 400,
                .edges = 6000,
                .neighbors = {.fanout = bounded_fanout(form, first, second)},
                .sampler = sampler_kind::neighbor,
                .seed = 9,
                .seeds = 30,
                .recorded = true},
            macros);
        device.resize(1);
        cuda::stream in;
        second_stage_sampler host({.fanout = second}, 9);
        neighbor_sampler<> of_large({.fanout = first}, 9);
        lease held[2];
        for (std::uint32_t m = 0; m < 4; ++m) {
            mini_batch_arena scratch, arena, of_batch;
            std::vector<node_id> large;
            large_batches(data.train, 60, 9, 2).choose(m % 3, large);
            macro_batch_builder builder;
            const macro_batch macro(builder.build(of_large.sample({2, {m, 0, ~std::uint64_t{0}}}, graph,
                                                      std::span<const node_id>(large), serial_executor{}, scratch),
                form, serial_executor{}, arena));
            held[m % 2] = {};
            held[m % 2] = macros->put(2, m, macro, {});
            for (std::uint64_t k = 0; k < 3; ++k) {
                const batch_key key{2, {m, 0, k}};
                std::vector<node_id> seeds;
                for (std::size_t i = k; i < std::min<std::size_t>(large.size(), 10 * k + 9); i += 2)
                    seeds.push_back(large[i]);
                const macro_batch_sample want = host.sample(key, macro, seeds, serial_executor{}, of_batch);
                const drawn_sample got = device.sample(key, 0, graph_lists(macro), {.nodes = seeds, .excluded = {}});
                CHECK(std::ranges::equal(got.nodes, want.nodes));
                CHECK(std::ranges::equal(got.numbers, want.numbers));
                CHECK(got.edges == want.edges());
                CHECK((fetched(in, device.names(0), want.nodes.size()) == simt_sample::listed(want.nodes)));
                layer_stack layers;
                layers.assign(want, serial_executor{});
                REQUIRE(device.views(0).size() == layers.size());
                for (std::size_t i = 0; i < layers.size(); ++i)
                    simt_sample::check_layer(in, device.views(0)[i], layers[i]);
            }
        }
    }
}

TEST_CASE("simt.train.device_macro_batch: the second stage on the device trains the bits of that on the host, with "
          "rows of features there or not, recorded or not") {
    const auto check = [](const graph_data& data, set_up with) {
        CAPTURE(with.layers);
        CAPTURE(static_cast<int>(with.form));
        CAPTURE(with.second);
        const outcome expected = train(data, with);
        CHECK(expected.losses.back() < expected.losses.front());
        for (const places& on : all_places) {
            if (on.rows && data.features.sparse()) continue;
            CAPTURE(on.sample);
            CAPTURE(on.rows);
            CAPTURE(on.recorded);
            with.on = on;
            CHECK(train(data, with) == expected);
        }
    };
    const graph_data data(200);
    check(data, {});
    check(data, {.form = second_stage::lists, .first = "5,4", .second = "3,2", .layers = "gcn:6:norm,gat:4x2:mean"});
    check(graph_data(200, {.f16 = true}), {.form = second_stage::lists, .features = "disk"});
    check(graph_data(200, {.sparse = true}), {.features = "memory"});
}

TEST_CASE("simt.train.device_macro_batch: batches of several macro-batches in flight, sampled by several threads, give "
          "the same bits, with and without rows that stay") {
    const graph_data data(200);
    const outcome expected = train(data, {});
    for (const bool recorded : {false, true})
        for (const bool delta : {true, false}) {
            CAPTURE(recorded);
            CAPTURE(delta);
            CHECK(train(data,
                      {.on = {.sample = true, .rows = true, .recorded = recorded},
                          .features = "memory",
                          .in_flight = 4,
                          .sample_workers = 3,
                          .delta = delta}) == expected);
        }
}

TEST_CASE("simt.train.device_macro_batch: a run that is stopped anywhere and resumed, or evaluated in between, ends in "
          "the same bits") {
    const graph_data data(400); // 134 nodes train, in 4 macro-batches of 4 batches
    const outcome expected = train(data, {.epochs = 3});
    for (const places& on : {places{.sample = true, .rows = true}, {.sample = true, .rows = true, .recorded = true}})
        for (const std::uint64_t at : {0U, 15U, 22U, 33U}) {
            CAPTURE(at);
            CAPTURE(on.recorded);
            resume_position from;
            std::optional<outcome> between;
            {
                trained_on_device first(data, {.on = on});
                std::stop_source stop;
                std::uint64_t applied = 0;
                training_observer observer;
                observer.on_batch = [&](const batch_key&, const training_statistics&) {
                    if (++applied > at) stop.request_stop();
                };
                for (std::uint64_t e = 0; e < 3 && !stop.stop_requested(); ++e) {
                    from = first.training
                               ->run(first.states(e), {e, {}, first.training->steps()}, observer, stop.get_token())
                               .position;
                    first.training->enter(phase::evaluate);
                }
                between = first.net.end({});
            }
            trained_on_device second(data, {.on = on});
            std::ranges::copy(between->weights, second.net.weights.values().begin());
            std::ranges::copy(between->state, second.net.weights.state().begin());
            for (std::uint64_t e = from.epoch; e < 3; ++e) {
                if (e == from.epoch)
                    (void)second.training->run(second.states(e), from);
                else
                    (void)second.training->run(second.states(e), e);
                second.training->enter(phase::evaluate);
            }
            CHECK(second.net.end(expected.losses) == expected);
        }
}

TEST_CASE("simt.train.device_macro_batch: rows pass the bus once a macro-batch, a sample in the device's memory brings "
          "neither lists nor ids to a step, and recorded steps wait for their results alone") {
    const graph_data data(400);
    const auto last_of = [&](const places& on) {
        trained_on_device of(data, {.on = on, .epochs = 5});
        (void)of();
        return std::pair(of.seen.back(), staged(*of.training));
    };
    const auto [host, moved] = last_of({});
    constexpr std::uint64_t states = 4, batches = 16;
    for (const places& on : {places{.sample = true}, {.rows = true}, {.sample = true, .rows = true},
             {.sample = true, .rows = true, .recorded = true}}) {
        CAPTURE(on.sample);
        CAPTURE(on.rows);
        const auto [epoch, moved_there] = last_of(on);
        const cuda::device_calls& calls = epoch.calls;
        MESSAGE("sample ", on.sample, ", rows ", on.rows, ", recorded ", on.recorded, ": launches ", calls.launches,
            " of ", host.calls.launches, ", waits ", calls.waits, " of ", host.calls.waits, ", bytes ",
            calls.copied_bytes, " of ", host.calls.copied_bytes, ", to the host ", calls.host_bytes, " of ",
            host.calls.host_bytes, ", allocations ", calls.allocations, ", recorded ", calls.recorded_steps, ", eager ",
            calls.eager_steps, ", refused ", calls.refused_steps);
        CHECK(epoch.model.input_nodes == host.model.input_nodes);
        CHECK(epoch.model.sampled_edges == host.model.sampled_edges);
        CHECK(moved_there == moved);
        CHECK(calls.waits >= batches + states);
        const std::uint64_t of_sample = on.sample && !on.recorded ? 2 * batches : 0;
        CHECK(calls.waits <= batches + states + 2 + of_sample + calls.refused_steps + 2 * calls.allocations);
        if (on.rows && !on.recorded) CHECK(calls.copied_bytes < host.calls.copied_bytes);
        if (!on.recorded) continue;
        CHECK(calls.recorded_steps + calls.eager_steps == batches);
        CHECK(calls.recorded_steps > batches / 2);
        CHECK(calls.launches < host.calls.launches / 2);
        CHECK(calls.host_bytes <= 1024 * batches); // four arrays, whatever the size of the sample
    }
}

TEST_CASE("simt.train.device_macro_batch: what does not fit or does not go together is an error") {
    const graph_data data(400);
    const places both{.sample = true, .rows = true};
    CHECK_THROWS_WITH_AS((void)train(data, {.on = both, .nodes = 60}), doctest::Contains("macro-batches"), over_budget);
    CHECK_THROWS_WITH_AS((void)train(data, {.on = both, .edges = 60}), doctest::Contains("macro-batches"), over_budget);
    CHECK_THROWS_WITH_AS((void)train(data, {.on = both, .rows = 60}), doctest::Contains("macro-batch 0"), over_budget);
    CHECK_THROWS_WITH_AS((void)train(graph_data(400, {.sparse = true}), {.on = both, .features = "memory"}),
        doctest::Contains("features that a device reads by itself"), error);
    CHECK_THROWS_WITH_AS(
        (void)train(data, {.on = {.sample = true}, .claims_rows = true}), doctest::Contains("keeps dense rows"), error);
    CHECK_THROWS_WITH_AS((void)train(data, {.form = second_stage::drawn, .on = both}),
        doctest::Contains("a device draws batches from lists"), error);
    CHECK_THROWS_WITH_AS(
        (void)train(data, {.on = both, .missing = 1}), doctest::Contains("a device with room for 399 rows"), error);
    for (const char* features : {"memory", "disk"}) // floats, which f16 cannot hold as they are stored
        CHECK_THROWS_WITH_AS((void)train(data, {.on = both, .features = features, .halves = true}),
            doctest::Contains("of floats or as they are stored"), error);
    memory_budget small(memory_budget::unlimited, memory_budget::unlimited, 20'000);
    CHECK_THROWS_WITH_AS(cuda::device_macro_batches(small, {.nodes = 1000, .edges = 1000, .lists = 2}),
        doctest::Contains("macro-batches"), over_budget);
    memory_budget budget;
    CHECK_THROWS_WITH_AS(cuda::device_macro_batches(budget, {.rows = 10, .columns = 4, .type = feature_type::int8}),
        doctest::Contains("not int8"), error);
    const auto macros = std::make_shared<cuda::device_macro_batches>(
        budget, device_macro_batches_setup{.nodes = 100, .edges = 100, .lists = 2});
    for (const sampler_kind kind : {sampler_kind::dense, sampler_kind::layerwise})
        CHECK_THROWS_WITH_AS(cuda::device_sampling(budget, {.nodes = 100, .edges = 100, .sampler = kind}, macros),
            doctest::Contains("by neighbor sampling"), error);
    CHECK_THROWS_WITH_AS((void)macros->copy_of(0, 3), doctest::Contains("macro-batch 3 of epoch 0"), error);
}

} // namespace test_simt_train_device_macro_batch
