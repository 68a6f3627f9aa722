#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/train/device_encoder_backend.cuh>
#include <gneiss/train/trainers/ginex.hpp>

#include <optional>
#include <stop_token>
#include <string>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/feature/row_gather.hpp>

#include <support/temporary_directory.hpp>
#include <train/stored_graph.hpp>

namespace test_simt_train_device_cached_features {

using namespace gneiss;
using namespace gneiss::test::stored_graph;

namespace {

struct set_up {
    std::size_t slots = 60;       ///< rows of the cache
    bool on_device = true;        ///< the cache; else in memory
    bool recorded = false;        ///< steps
    std::size_t rows_ahead = 3;   ///< batches with rows in memory
    std::uint64_t superbatch = 4; ///< batches
    superbatch_schedule schedule = superbatch_schedule::overlap;
    std::uint64_t epochs = 3;
    std::optional<std::uint64_t> stop_at{}; ///< a stop is requested at this batch of each epoch
};

struct result {
    outcome of;
    cuda::device_calls calls;         ///< of all epochs
    std::uint64_t rows = 0, hits = 0; ///< of a cache on the device

    [[nodiscard]] std::uint64_t missed() const { return rows - hits; }
};

/// Trains by superbatches on the emulated device.
result train(const graph_data& data, const set_up& with) {
    memory_budget budget;
    const serial_executor on;
    const gneiss::test::temporary_directory run;
    network net({.dense = columns, .sparse = 0});
    disk_csc graph({.in = data.directory / "csc", .out = {}}, threads(), budget);
    any_row_source source(
        std::in_place_type<disk_rows>, threads(), data.stored(), gather_options{}, executor_ref(on), budget);
    cached_rows<any_row_source> cache(
        source, with.on_device ? 0 : with.slots, slot_table_kind::hashed, executor_ref(on), budget);
    const bool halves = data.features.type == feature_type::f16;
    feature_rows rows{.source = source, .columns = columns, .type = data.features.type};
    if (!with.on_device) rows.cache = &cache;
    const device_features there{.nodes = data.rows.nodes,
        .columns = columns,
        .type = halves ? feature_type::f16 : feature_type::f32,
        .cache_slots = with.slots};
    const std::vector<layer_options> layers = parse_layers("sage:8,sage:4", {.dropout = .2});
    any_backend backend(std::in_place_type<cuda::device_node_backend>, budget,
        network_setup{
            .layers = layers, .in = net.encode.inputs(), .weights = net.weights, .seed = 9, .recorded = with.recorded},
        std::nullopt, nullptr, with.on_device ? &there : nullptr);
    const device_cached_rows of_device{.rows = rows, .slots = with.slots, .type = there.type};
    ginex_trainer training = make_ginex({.batch = 10,
                                            .seed = 9,
                                            .rows_in_flight = with.rows_ahead,
                                            .superbatches = {.schedule = with.schedule,
                                                .batches = with.superbatch,
                                                .directory = run.path(),
                                                .carry = with.schedule == superbatch_schedule::overlap,
                                                .epochs = with.epochs}},
        {.sampler = any_sampler(graph, [] { return neighbor_sampler<>(hops(), 9); }),
            .features = with.on_device ? feature_input(of_device) : feature_input(rows),
            .task = classified_nodes{data.labels,
                [&](std::uint32_t /*state*/, std::vector<node_id>& out) { out = data.train; }},
            .encode = net.encode,
            .weights = net.weights,
            .optimizer = net.dense,
            .backend = &backend,
            .before_sampling = [&] { cache.release(); },
            .before_gathering = [&] { cache.acquire(); }},
        on);
    const cuda::device_calls before = cuda::calls_so_far();
    std::vector<double> losses;
    for (std::uint64_t e = 0; e < with.epochs; ++e) {
        std::stop_source stop;
        training_observer observer;
        observer.on_batch = [&](const batch_key& key, const training_statistics&) {
            if (key.number.index == with.stop_at) stop.request_stop();
        };
        auto done = training.run(whole_graph(), e, {}, observer, stop.get_token());
        losses.push_back(done.model.loss);
        if (done.position.epoch == e) {
            done = training.run(whole_graph(), done.position);
            losses.back() += done.model.loss;
        }
    }
    result got{net.end(std::move(losses)), cuda::calls_so_far() - before};
    if (const auto* cached = training.features().get_if<device_cached_features>())
        std::tie(got.rows, got.hits) = cached->counts();
    return got;
}

} // namespace

TEST_CASE("simt.train.device_cached_features: a cache on the device gives the bits of one in memory, and each row that "
          "it lacks passes the bus once") {
    for (const bool halves : {false, true}) {
        const graph_data data(200, {.f16 = halves});
        for (const auto schedule : {superbatch_schedule::overlap, superbatch_schedule::alternate})
            for (const std::size_t slots : {5U, 60U, 200U}) {
                CAPTURE(halves);
                CAPTURE(slots);
                CAPTURE(static_cast<int>(schedule));
                const result host = train(data, {.slots = slots, .on_device = false, .schedule = schedule}),
                             device = train(data, {.slots = slots, .schedule = schedule});
                CHECK(device.of == host.of);
                CHECK(device.hits > 0);
                CHECK(device.calls.bus_rows == device.missed());
                CHECK(device.calls.bus_bytes ==
                    device.missed() *
                        device_features::row_bytes(columns, halves ? feature_type::f16 : feature_type::f32));
                CHECK(host.calls.bus_rows == 0);
            }
    }
}

TEST_CASE("simt.train.device_cached_features: recorded steps change the cache as eager ones, with batches in flight") {
    const graph_data data(200);
    for (const std::size_t rows_ahead : {1U, 4U}) {
        CAPTURE(rows_ahead);
        const result host = train(data, {.on_device = false}), eager = train(data, {.rows_ahead = rows_ahead}),
                     recorded = train(data, {.recorded = true, .rows_ahead = rows_ahead});
        CHECK(eager.of == host.of);
        CHECK(recorded.of == host.of);
        CHECK(recorded.calls.recorded_steps > 0);
        CHECK(recorded.calls.bus_rows == eager.calls.bus_rows);
        CHECK(recorded.calls.launches < eager.calls.launches * 7 / 10);
    }
}

TEST_CASE("simt.train.device_cached_features: a run that stops goes on with the rows that the device holds") {
    const graph_data data(200);
    const result whole = train(data, {.on_device = false, .epochs = 2});
    for (const std::uint64_t at : {0U, 2U, 5U}) {
        CAPTURE(at);
        const result stopped = train(data, {.epochs = 2, .stop_at = at});
        CHECK(stopped.of.weights == whole.of.weights);
        CHECK(stopped.of.state == whole.of.state);
        CHECK(stopped.hits > 0);
    }
}

TEST_CASE("simt.train.device_cached_features: a backend refuses batches whose places it does not know, and a cache "
          "beside learned columns") {
    memory_budget budget;
    network net({.dense = columns, .sparse = 0});
    const device_features there{.nodes = 200, .columns = columns, .cache_slots = 9};
    const network_setup setup{
        .layers = parse_layers("sage:8,sage:4"), .in = net.encode.inputs(), .weights = net.weights, .seed = 9};
    const device_features narrow{.nodes = 200, .columns = columns - 1, .cache_slots = 9};
    CHECK_THROWS_WITH_AS(cuda::device_node_backend(budget, setup, device_embeddings{200, {1, 0}}, nullptr, &narrow),
        "a cache of features on a device is for rows without learned columns", error);
    const graph_data data(200);
    any_backend backend(std::in_place_type<cuda::device_node_backend>, budget, setup, std::nullopt, nullptr, &there);
    const serial_executor on;
    disk_csc graph({.in = data.directory / "csc", .out = {}}, threads(), budget);
    const gneiss::test::temporary_directory run;
    ginex_trainer training =
        make_ginex({.batch = 10, .seed = 9, .superbatches = {.batches = 4, .directory = run.path(), .epochs = 1}},
            {.sampler = any_sampler(graph, [] { return neighbor_sampler<>(hops(), 9); }),
                .features = features_on_device(columns),
                .task = classified_nodes{data.labels,
                    [&](std::uint32_t /*state*/, std::vector<node_id>& out) { out = data.train; }},
                .encode = net.encode,
                .weights = net.weights,
                .optimizer = net.dense,
                .backend = &backend},
            on);
    CHECK_THROWS_WITH_AS((void)training.run(whole_graph(), 0),
        doctest::Contains("a batch does not say which of its rows the device caches"), error);
}

} // namespace test_simt_train_device_cached_features
