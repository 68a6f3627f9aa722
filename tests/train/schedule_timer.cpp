#include <gneiss/train/schedule_timer.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/order/large_batches.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/storage/adjacency/mapped_csc.hpp>
#include <gneiss/train/histories.hpp>
#include <gneiss/train/trainers/joestar.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "stored_graph.hpp"

namespace test_train_schedule_timer {

using namespace gneiss;
using namespace gneiss::test::stored_graph;

namespace {

constexpr product_order cheaper = product_order::cheaper, first = product_order::first, last = product_order::last;
const std::vector<layer_schedule> candidates{{cheaper, cheaper}, {first, last}, {last, first}, {last, last}};

/// A clock by which pass p over a batch takes schedule i 10 i + p seconds, and the first 1000 more.
struct script_clock {
    std::size_t schedules;
    std::uint64_t passes;
    std::uint64_t calls = 0;
    double now = 0;

    double operator()() {
        const std::uint64_t pass = calls / 2;
        if (calls++ % 2 == 0) return now;
        const std::uint64_t batch = pass / passes / schedules, turn = pass / passes % schedules;
        now += static_cast<double>(10 * ((turn + batch) % schedules)) + static_cast<double>(pass % passes) +
            (pass % passes == 0 ? 1000 : 0);
        return now;
    }
};

/// Training by large batches, or by four partitions with histories.
struct trainer {
    const graph_data& data;
    bool by_partitions;
    std::string layers;
    memory_budget budget{};
    tbb_executor on{2};
    memory_csc graph;
    dense_parameters<> weights{};
    cpu_encoder encode;
    dense_optimizer dense = make_dense_optimizer("adam", .01F);
    std::shared_ptr<macro_batch_border> border{};
    any_row_source source;
    gnn_task task;

    trainer(const graph_data& of, bool partitions, std::string text)
        : data(of),
          by_partitions(partitions),
          layers(std::move(text)),
          graph(csc_files{.in = data.directory / "csc", .out = {}}, budget),
          encode(weights, parse_layers(layers, {.dropout = .2}), {.dense = columns}),
          source(std::in_place_type<disk_rows>, test::stored_graph::threads(), data.stored(), gather_options{}, on,
              budget),
          task(classified_nodes{
              data.labels, [this](std::uint32_t, std::vector<node_id>& out) { out = data.train; }, {1, 2, 1, .5F}}) {
        weights.allocate(3);
        dense.allocate_state(weights);
        if (!partitions) return;
        std::vector<std::uint16_t> parts;
        for (std::uint64_t v = 0; v < data.rows.nodes; ++v) parts.push_back(static_cast<std::uint16_t>(v / 7 % 4));
        border = std::make_shared<macro_batch_border>(
            std::make_shared<const std::vector<std::uint16_t>>(std::move(parts)), 4);
    }
    /// Trains epochs, or one until `stop`; by `backend`, or the CPU. Returns the weights and losses.
    outcome run(any_backend* backend, std::uint64_t epochs, const training_observer& observer = {},
        const std::stop_token& stop = {}) {
        std::optional<histories> past;
        if (by_partitions) past.emplace(hidden_rows_of(encode), data.rows.nodes, history_options{}, on, budget);
        const std::vector<hop_fanout> hop = by_partitions ? parse_fanout("all") : hops().fanout;
        joestar_trainer training =
            make_joestar({.batch = 10,
                             .large_batch = 40,
                             .second = hops(),
                             .macro_batches = {.form = by_partitions ? second_stage::lists : second_stage::hops},
                             .seed = 9},
                {.first_stage = by_partitions
                        ? any_sampler(graph, [this, hop] { return bordered_sampler(border, {.fanout = hop}, 9); })
                        : make_sampler(graph, sampler_kind::neighbor, {.fanout = hop}, 9),
                    .features = feature_rows{.source = source, .columns = columns},
                    .task = task,
                    .encode = encode,
                    .weights = weights,
                    .optimizer = dense,
                    .backend = backend,
                    .border = border,
                    .past = past ? &*past : nullptr},
                on, budget);
        std::vector<double> losses;
        for (std::uint64_t e = 0; e < epochs; ++e) {
            const epoch_plan states =
                by_partitions ? macro_batches(4, 0, 2, 9, e).states : large_batches(data.train, 40, 9, e).states();
            losses.push_back(training.run(states, {e, {}, training.steps()}, observer, stop).model.loss);
        }
        if (past && backend != nullptr) CHECK(past->counts().pushed == 0);
        return {{weights.values().begin(), weights.values().end()}, {weights.state().begin(), weights.state().end()},
            std::move(losses)};
    }
    [[nodiscard]] std::unique_ptr<schedule_timer> timer(
        std::vector<layer_schedule> of, const schedule_timer_options& options) {
        return std::make_unique<schedule_timer>(
            parse_layers(layers, {.dropout = .2}), of, encode.inputs(), weights,
            [this](cpu_encoder& by) { return cpu_backend_of(task, by, weights, 9, on); }, options);
    }
};

} // namespace

TEST_CASE("schedules are timed on the batches of a training, in turn, by the least of their passes") {
    const graph_data data(400);
    for (const bool by_partitions : {false, true}) {
        CAPTURE(by_partitions);
        trainer of(data, by_partitions, "sage:5,gcn:4");
        for (const std::uint64_t batches : {1, 6}) {
            const auto timer =
                of.timer(candidates, {.batches = batches, .repeats = 3, .clock = script_clock{candidates.size(), 4}});
            CHECK(timer->seconds()[0] == std::nullopt);
            any_backend by(std::ref(*timer));
            (void)of.run(&by, 1);
            CHECK(timer->done());
            CHECK(timer->batches() == batches);
            const auto seconds = timer->seconds();
            for (std::size_t i = 0; i < candidates.size(); ++i)
                CHECK(seconds[i].value_or(0) == doctest::Approx(10.0 * static_cast<double>(i) + 1));
            REQUIRE(timer->sizes().size() == 2);
            CHECK(timer->sizes()[1].targets > 0);
            CHECK(timer->sizes()[1].targets <= 10);
            CHECK(timer->sizes()[0].sources > timer->sizes()[0].targets);
            CHECK(timer->sizes()[0].targets >= timer->sizes()[1].targets);
        }
    }
}

TEST_CASE("timing leaves parameters, optimizer and histories as they are; an epoch of fewer batches is timed whole") {
    const graph_data data(400);
    for (const bool by_partitions : {false, true}) {
        trainer untouched(data, by_partitions, "sage:5,gcn:4"), timed(data, by_partitions, "sage:5,gcn:4");
        const outcome expected = untouched.run(nullptr, 2);
        const auto timer = timed.timer(candidates, {.batches = 1000, .repeats = 1, .clock = script_clock{4, 2}});
        any_backend by(std::ref(*timer));
        (void)timed.run(&by, 1);
        CHECK(!timer->done());
        CHECK(timer->batches() >= 14); // of 134 training nodes
        CHECK(timer->batches() <= 16);
        CHECK(std::ranges::all_of(timed.weights.gradients(), [](float g) { return g == 0; }));
        CHECK(timed.run(nullptr, 2) == expected);
    }
}

TEST_CASE("a schedule of more memory than the layers as given is not timed") {
    const graph_data data(400);
    trainer of(data, false, "gat:1x6,gat:4"); // sums of six rows by head, in place of one product
    const auto timer = of.timer({{cheaper, cheaper}, {last, cheaper}, {first, cheaper}},
        {.batches = 2, .repeats = 1, .clock = script_clock{3, 2}});
    any_backend by(std::ref(*timer));
    (void)of.run(&by, 1);
    CHECK(timer->seconds()[0].has_value());
    CHECK(timer->seconds()[1] == std::nullopt);
    CHECK(timer->seconds()[2].has_value());
}

TEST_CASE("schedule_timer: bad input") {
    const graph_data data(100);
    trainer of(data, false, "sage:5,gcn:4");
    CHECK_THROWS_WITH_AS((void)of.timer({{cheaper}}, {}), doctest::Contains("schedule of 1 layers for 2"), error);
    CHECK_THROWS_WITH_AS((void)of.timer(candidates, {.batches = 0}), doctest::Contains("a batch and a pass"), error);
    CHECK_THROWS_WITH_AS((void)of.timer(candidates, {.repeats = 0}), doctest::Contains("a batch and a pass"), error);
}

} // namespace test_train_schedule_timer
