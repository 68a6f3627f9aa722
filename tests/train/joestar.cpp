#include <gneiss/train/trainers/joestar.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/storage/adjacency/disk_csc.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/storage/engine/faulty.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "model/own_layers.hpp"
#include "stored_graph.hpp"

namespace test_train_joestar {

using namespace gneiss;
using namespace gneiss::test::stored_graph;

static_assert(std::same_as<joestar_trainer::loop::batches_type, any_batches>);

namespace {

struct set_up {
    std::string_view topology = "disk", features = "disk";
    second_stage form = second_stage::hops;
    std::vector<hop_fanout> first = hops().fanout;
    std::uint64_t large_batch = 40, rows = 0, bytes = 0, batch = 10, epochs = 2;
    bool delta = true;
    std::size_t threads = 1, sample_workers = 1, in_flight = 2;
    engine_factory engines = test::stored_graph::threads();
    layer_factories layers = usual_layers();
};

/// All parts of training in two stages.
struct trainer {
    const graph_data& data;
    set_up with;
    memory_budget budget{};
    tbb_executor on;
    network net;
    std::unique_ptr<disk_csc> disk{};
    std::unique_ptr<memory_csc> whole{};
    std::optional<any_row_source> source{};
    std::optional<feature_store> store{};
    std::unique_ptr<feature_buffer> buffer{};
    std::optional<joestar_trainer> training{};

    trainer(const graph_data& of, const set_up& options)
        : data(of),
          with(options),
          on(options.threads),
          net(of.features.sparse() ? input_columns{.dense = 0, .sparse = columns}
                                   : input_columns{.dense = columns, .sparse = 0},
              options.layers) {
        const csc_files files{.in = data.directory / "csc", .out = {}};
        const neighbor_options first{.fanout = with.first};
        std::optional<any_sampler> sampler;
        if (with.topology == "disk") {
            disk = std::make_unique<disk_csc>(files, with.engines, budget);
            sampler = make_sampler(*disk, sampler_kind::neighbor, first, 9);
        } else {
            whole = std::make_unique<memory_csc>(files, budget);
            sampler = make_sampler(*whole, sampler_kind::neighbor, first, 9);
        }
        training.emplace(make_joestar(
            {.batch = with.batch,
                .large_batch = with.large_batch,
                .second = hops(),
                .macro_batches = {.form = with.form, .rows = with.rows, .bytes = with.bytes, .delta = with.delta},
                .seed = 9,
                .rows_in_flight = with.in_flight,
                .sample_workers = with.sample_workers},
            {.first_stage = *sampler,
                .features = input(),
                .task = classified_nodes{data.labels,
                    [this](std::uint32_t /*state*/, std::vector<node_id>& out) { out = data.train; }},
                .encode = net.encode,
                .weights = net.weights,
                .optimizer = net.dense},
            on, budget));
    }
    feature_input input() {
        if (with.features == "memory") {
            store.emplace(data.features, row_partitioning{data.rows.nodes, 1});
            const epoch_plan all{buffer_state{.resident = {0}, .edge_buckets = {}}};
            buffer =
                std::make_unique<feature_buffer>(*store, with.engines, feature_buffer::need(all, *store).bytes, budget);
            buffer->begin_epoch(all);
            return std::shared_ptr<const resident_features>(buffer->acquire(0));
        }
        source.emplace(std::in_place_type<disk_rows>, with.engines, data.stored(), gather_options{}, on, budget);
        return feature_rows{
            .source = *source, .columns = columns, .type = data.features.type, .normalized = data.features.normalized};
    }
    [[nodiscard]] epoch_plan states(std::uint64_t epoch) const {
        return large_batches(data.train, with.large_batch, 9, epoch).states();
    }
    outcome operator()() {
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < with.epochs; ++e) losses.push_back(training->run(states(e), e).model.loss);
        return net.end(std::move(losses));
    }
};

outcome train(const graph_data& data, const set_up& options) { return trainer(data, options)(); }

const std::vector<hop_fanout> everything = parse_fanout("all,all");

} // namespace

TEST_CASE("one macro-batch of all neighbors trains as one stage does, bit for bit, for every kind of features") {
    const auto check = [](const graph_data& data, std::string_view features) {
        const outcome expected = in_memory(data, sampler_kind::neighbor, 2);
        CAPTURE(features);
        CAPTURE(data.features.sparse());
        CAPTURE(static_cast<int>(data.features.type));
        for (const char* topology : {"disk", "memory"})
            CHECK(train(data,
                      {.topology = topology,
                          .features = features,
                          .form = second_stage::lists,
                          .first = everything,
                          .large_batch = 1000}) == expected);
    };
    check(graph_data(400), "disk");
    check(graph_data(400), "memory");
    check(graph_data(400, {.f16 = true}), "disk");
    check(graph_data(400, {.f16 = true}), "memory");
    check(graph_data(400, {.sparse = true}), "memory");
}

TEST_CASE("macro-batches train the same bits for any threads, stores, slots, and with or without rows that stay") {
    const graph_data data(400);
    for (const second_stage form : {second_stage::hops, second_stage::lists}) {
        const outcome expected = train(data, {.form = form});
        CHECK(expected.losses[1] < expected.losses[0]);
        CHECK(train(data, {.topology = "memory", .features = "memory", .form = form, .threads = 3}) == expected);
        CHECK(
            train(data, {.form = form, .delta = false, .threads = 2, .sample_workers = 3, .in_flight = 4}) == expected);
        CHECK(train(data, {.form = form, .large_batch = 30}) != expected);
    }
}

TEST_CASE(
    "layers of your own train on macro-batches as in one stage, and with the losses of the layer that they copy") {
    const graph_data data(400);
    const layer_surround hidden{.then = activation::relu, .dropout = .2}, top{.dropout = .2};
    const auto two = [&](const auto& below, const auto& above) {
        return layer_factories{{below, hidden}, {above, top}};
    };
    for (const layer_factories& layers : {two(own_layers::gin{.width = 8}, own_layers::gin{.width = 4}),
             two(own_layers::pool{.width = 8}, own_layers::gated{.width = 4}),
             two(own_layers::gated{.width = 8}, own_layers::mean{.width = 4})}) {
        CHECK(train(data, {.form = second_stage::lists, .first = everything, .large_batch = 1000, .layers = layers}) ==
            in_memory(data, sampler_kind::neighbor, 2, layers));
        for (const second_stage form : {second_stage::hops, second_stage::lists}) {
            const outcome expected = train(data, {.form = form, .layers = layers});
            CHECK(train(data,
                      {.topology = "memory", .features = "memory", .form = form, .threads = 3, .layers = layers}) ==
                expected);
        }
    }
    const auto library = parse_layers("sage:8:product=last,sage:4:product=last", {.dropout = .2});
    for (const second_stage form : {second_stage::hops, second_stage::lists}) {
        const outcome own =
            train(data, {.form = form, .layers = two(own_layers::mean{.width = 8}, own_layers::mean{.width = 4})});
        const outcome copied = train(data, {.form = form, .layers = layer_factories(library.begin(), library.end())});
        REQUIRE(own.losses.size() == copied.losses.size());
        for (std::size_t e = 0; e < own.losses.size(); ++e)
            CHECK(own.losses[e] == doctest::Approx(copied.losses[e]).epsilon(1e-4));
        CHECK(own.losses[1] < own.losses[0]);
    }
}

TEST_CASE("an epoch that is resumed anywhere, or evaluated in between, ends in the same bits") {
    const graph_data data(400); // 134 nodes train, in 4 macro-batches of 4 batches
    const outcome expected = train(data, {});
    for (std::uint64_t at = 0; at < 30; at += 3) {
        std::optional<outcome> between;
        resume_position from;
        std::vector<double> losses;
        {
            trainer first(data, {});
            std::stop_source stop;
            std::uint64_t seen = 0;
            training_observer observer;
            observer.on_batch = [&](const batch_key&, const training_statistics&) {
                if (++seen > at) stop.request_stop();
            };
            for (std::uint64_t e = 0; e < 2 && !stop.stop_requested(); ++e) {
                const auto done =
                    first.training->run(first.states(e), {e, {}, first.training->steps()}, observer, stop.get_token());
                from = done.position;
            }
            between = first.net.end({});
        }
        trainer second(data, {});
        std::ranges::copy(between->weights, second.net.weights.values().begin());
        std::ranges::copy(between->state, second.net.weights.state().begin());
        for (std::uint64_t e = from.epoch; e < 2; ++e) {
            if (e == from.epoch)
                (void)second.training->run(second.states(e), from);
            else
                (void)second.training->run(second.states(e), e);
            second.training->enter(phase::evaluate);
        }
        const outcome found = second.net.end(expected.losses);
        CAPTURE(at);
        CHECK(found == expected);
    }
}

TEST_CASE("rows that the macro-batch before holds are not moved again; the rest is counted, byte by byte") {
    const graph_data data(400);
    const auto rows_of = [&](std::uint64_t m, const neighbor_sampler<>& like) {
        memory_budget budget;
        const csc_files files{.in = data.directory / "csc", .out = {}};
        const memory_csc graph(files, budget);
        std::vector<node_id> large;
        large_batches(data.train, 40, 9, 0).choose(m, large);
        mini_batch_arena arena;
        neighbor_sampler<> by(like.options(), 9);
        const auto sample = by.sample({0, {static_cast<std::uint32_t>(m), 0, ~std::uint64_t{0}}}, graph,
            std::span<const node_id>(large), serial_executor{}, arena);
        return std::pair(std::set<node_id>(sample.nodes.begin(), sample.nodes.end()), sample.edges());
    };
    const neighbor_sampler<> like(hops(), 9);
    std::uint64_t all = 0, fresh = 0, edges = 0;
    std::set<node_id> before;
    for (std::uint64_t m = 0; m < 4; ++m) {
        const auto [now, drawn] = rows_of(m, like);
        all += now.size();
        edges += drawn;
        fresh += static_cast<std::uint64_t>(std::ranges::count_if(now, [&](node_id v) { return !before.contains(v); }));
        before = now;
    }
    for (const bool delta : {false, true}) {
        trainer of(data, {.epochs = 1, .delta = delta});
        (void)of();
        const macro_batch_counts seen = staged(*of.training);
        CHECK(seen.macro_batches == 4);
        CHECK(seen.rows == (delta ? fresh : all));
        CHECK(seen.edges == edges);
        const std::uint64_t of_rows = seen.rows * columns * sizeof(float);
        CHECK(seen.bytes > of_rows + 4 * seen.edges);
        CHECK(seen.bytes < of_rows + 12 * seen.edges + 4 * 4096 + 12 * all);
        CHECK(of.source->statistics().rows == seen.rows);
    }
    CHECK(fresh < all);
}

TEST_CASE("slots of two macro-batches suffice, and fewer are an error that names them") {
    const graph_data data(400);
    const outcome expected = train(data, {});
    std::uint64_t least = 0;
    for (std::uint64_t rows = 400; rows != 0; rows -= 20) {
        try {
            const outcome found = train(data, {.rows = rows});
            CHECK(found == expected);
        } catch (const over_budget& e) {
            CHECK(std::string(e.what()).find("macro-batch") != std::string::npos);
            CHECK(e.limit() == rows * columns * sizeof(float));
            least = rows;
            break;
        }
    }
    CHECK(least > 100);
    CHECK_THROWS_AS((void)train(data, {.bytes = 3000}), error); // lists
    const graph_data sparse(400, {.sparse = true});
    CHECK_THROWS_AS((void)train(sparse, {.features = "memory", .bytes = 6000}), error);
}

TEST_CASE("two-stage batches: bad input and faults") {
    const graph_data data(400);
    CHECK_THROWS_WITH_AS((void)train(data, {.large_batch = 9}),
        doctest::Contains("a large batch of 9 nodes is less than a batch of 10"), error);
    trainer of(data, {});
    const epoch_plan more(5, buffer_state{.resident = {0}, .edge_buckets = {}});
    CHECK_THROWS_WITH_AS((void)of.training->run(more, 0), doctest::Contains("large batch 4 of an epoch of 4"), error);
    // The first stage is one ahead: a read that fails there ends the epoch.
    for (const std::uint64_t at : {6U, 9U, 14U}) {
        const auto injector =
            std::make_shared<fault_injector>(fault{.kind = fault_kind::device_error, .at = at, .sticky = true});
        const engine_factory failing = [injector] { return any_engine(faulty(threads_engine(2), injector)); };
        CHECK_THROWS_AS((void)train(data, {.engines = failing}), io_error);
        CHECK(injector->injected() > 0);
    }
}

} // namespace test_train_joestar
