#include <gneiss/train/fit.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/model/initialize.hpp>
#include <gneiss/order/any_order.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/train/trainers/hanoi.hpp>
#include <gneiss/train/trainers/marius.hpp>

#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>
#include <train/graph_harness.hpp>
#include <train/link_harness.hpp>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <vector>

namespace test_train_fit {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

/// Marius with rows in the run's file: a process that trains until its end, or until `stop_after` batches.
struct links_run {
    std::filesystem::path directory;
    std::uint64_t epochs = 3, stop_after = 0;
    link_harness::toy_graph graph{120, 4, 2, 600, 1};
    std::vector<double> measures{};              ///< of the validations, if any
    std::vector<std::vector<float>> validated{}; ///< rows of each
    std::vector<float> relations_after{}, rows_after{};

    fit_result operator()() {
        const row_layout layout{8, 8};
        const engine_factory engines = [] { return any_engine(threads_engine{}); };
        const any_row_optimizer optimizer = make_row_optimizer("adagrad", .1F);
        any_link_model model = make_link_model("distmult", "softmax", 8);
        embedding_table relations(model.relation_rows(2), {8, 8});
        initialize_rows(initializer::uniform(-.1F, .1F), 0, 1, embedding_kind::relations, 0, 8, relations.table(),
            serial_executor{});
        const auto file = open_rows(directory, engines, graph.partitioning, layout, [&](embedding_file& fresh) {
            fresh.fill([&](std::uint64_t first, matrix_view<float> to) {
                initialize_rows(
                    initializer::normal(0, .1F), 0, 1, embedding_kind::nodes, first, 8, to, serial_executor{});
            });
        });
        embedding_file& rows = *file;
        memory_budget budget;
        partition_buffer buffer(rows, {.resident_partitions = 2, .prefetch = 1}, budget);
        edge_buffer edges(graph.source(), {.partitions = 4}, budget);
        const serial_executor executor;
        marius_trainer training =
            make_marius({.batch_edges = 50, .negatives = {.per_chunk = 5, .chunks = 2}, .pipeline = {.staleness = 0}},
                {.model = model, .optimizer = optimizer, .rows = buffer, .edges = edges, .relations = relations},
                executor, budget);
        std::stop_source stop;
        std::atomic<std::uint64_t> applied{0};
        const training_observer observer{.on_batch = [&](const batch_key&, const training_statistics&) {
            if (++applied == stop_after) stop.request_stop();
        }};
        const auto order = make_order("beta", 4, 2, 7);
        const auto values = [&] {
            std::vector<float> all;
            buffer.for_each_block([&](std::uint64_t, matrix_view<const float> block) {
                for (std::size_t i = 0; i < block.rows(); ++i) all.insert(all.end(), block[i].begin(), block[i].end());
            });
            return all;
        };
        std::function<double()> validate;
        if (!measures.empty())
            validate = [&] {
                validated.push_back(values());
                return measures.at(validated.size() - 1);
            };
        const fit_result run = fit(training, order, trained_state().add(relations).add(rows, buffer),
            {.directory = directory, .epochs = epochs}, validate, observer, stop.get_token());
        relations_after.assign(relations.data().begin(), relations.data().end());
        rows_after = values();
        return run;
    }
};

} // namespace

TEST_CASE("a run with rows in a file that stops after any number of batches goes on to the same bits and records") {
    const temporary_directory files;
    links_run whole{files / "whole"};
    const fit_result expected = whole();
    CHECK_FALSE(expected.stopped);
    CHECK(expected.epochs.size() == 3);
    for (const std::uint64_t every : {1U, 4U, 7U, 13U}) {
        CAPTURE(every);
        links_run parts{files / std::to_string(every), 3, every};
        fit_result run = parts();
        for (int i = 0; run.stopped && i < 100; ++i) run = parts();
        CHECK(parts.relations_after == whole.relations_after);
        CHECK(parts.rows_after == whole.rows_after);
        REQUIRE(run.epochs.size() == 3);
        for (std::size_t e = 0; e < 3; ++e) {
            CHECK(run.epochs[e].mean_loss == expected.epochs[e].mean_loss);
            CHECK(run.epochs[e].examples == expected.epochs[e].examples);
        }
    }
    links_run more{files / "whole", 5}; // a finished run goes on when it gets more epochs
    CHECK(more().epochs.size() == 5);
}

TEST_CASE("rows in a file are those of the best state at the end, again in another process, and training may go on") {
    const temporary_directory files;
    links_run best{files / "run", 5};
    best.measures = {.1, .4, .5, .2, .3};
    CHECK(best().best == 2);
    REQUIRE(best.validated.size() == 5);
    CHECK(best.rows_after == best.validated[2]);
    links_run again{files / "run", 5};
    again.measures = {.9};
    CHECK(again().best == 2);
    CHECK(again.validated.empty());
    CHECK(again.rows_after == best.validated[2]);
    links_run further{files / "run", 6}, whole{files / "whole", 6};
    further.measures = {.7};
    whole.measures = {.1, .4, .5, .2, .3, .7};
    CHECK(further().best == 5);
    CHECK(whole().best == 5);
    CHECK(further.rows_after == whole.rows_after); // from the last state, not from the best
}

TEST_CASE("the model is the best state at the end, training stops early, and damaged or foreign files are refused") {
    const temporary_directory files;
    std::vector<float> numbers(4, 0);
    dense_parameters<> none;
    const graph_harness::graph_data data = graph_harness::graph_data::planted(60, 1);
    graph_harness::set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.layers = "sage:8,sage:4";
    const auto train = [&](const fit_options& options, const std::vector<double>& measures,
                           std::vector<std::vector<float>>& states, std::vector<float>& after) {
        graph_harness::gnn_harness all(data, with);
        std::optional<fit_result> run;
        all.run([&](mariusgnn_trainer& training, const auto& plan_of) {
            std::size_t next = 0;
            run = fit(training, plan_of, trained_state().add(all.weights), options, [&] {
                states.emplace_back(all.weights.values().begin(), all.weights.values().end());
                return measures.at(next++);
            });
        });
        after.assign(all.weights.values().begin(), all.weights.values().end());
        return *run;
    };
    std::vector<std::vector<float>> states;
    std::vector<float> after;
    const fit_options options{.directory = files / "run", .epochs = 9, .patience = 3, .configuration = 7};
    const fit_result run = train(options, {.1, .5, .2, .3, .4, .9}, states, after);
    CHECK(run.epochs.size() == 5);
    CHECK(run.best == 1);
    CHECK(after == states[1]);
    CHECK_FALSE(after == states[4]);
    CHECK(run.csv().starts_with("epoch,mean_loss,examples,seconds,measure\n0,"));

    std::vector<std::vector<float>> unused;
    CHECK(train(options, {}, unused, after).best == 1); // it has ended
    CHECK(after == states[1]);

    std::vector<std::vector<float>> of_nan;
    const fit_result nan =
        train({.directory = files / "nan", .epochs = 9, .patience = 3}, {NAN, .2, .1, .15, .05}, of_nan, after);
    CHECK(nan.epochs.size() == 5);
    CHECK(nan.best == 1);
    CHECK(after == of_nan[1]);

    // Killed between the best state of epoch 1 and the checkpoint of its end: trained again, its measure is lower.
    fit_options killed{.directory = files / "killed", .epochs = 1};
    std::vector<std::vector<float>> seen;
    (void)train(killed, {.5}, seen, after);
    std::filesystem::copy_file(killed.directory / "checkpoint", files / "before");
    killed.epochs = 2;
    (void)train(killed, {.9}, seen, after);
    std::filesystem::rename(files / "before", killed.directory / "checkpoint");
    killed.epochs = 3;
    CHECK(train(killed, {.4, .3}, seen, after).best == 1);
    CHECK(after == seen[1]);

    fit_options other = options;
    other.configuration = 8;
    CHECK(test::code_of([&] { (void)train(other, {}, unused, after); }) == errc::config_mismatch);
    with.layers = "sage:9,sage:4";
    CHECK_THROWS_WITH_AS((void)train(options, {}, unused, after), doctest::Contains("another model"), error);
    with.layers = "sage:8,sage:4";
    std::fstream(options.directory / "checkpoint", std::ios::in | std::ios::out | std::ios::binary).seekp(60).put('x');
    CHECK(test::code_of([&] { (void)train(options, {}, unused, after); }) == errc::corrupt);
}

namespace {

/// Softmax cross-entropy of labels, as the library's.
struct same_head {
    static constexpr bool in_place = classification_head::in_place, has_parameters = false;
    classification_head of{};
    std::atomic<int>* calls;

    void differentiate(training_batch& batch, matrix_view<const float> outputs, matrix_view<float> gradients,
        const executor_ref& executor) {
        ++*calls;
        of.differentiate(batch, outputs, gradients, executor);
    }
    void step(training_batch& /*batch*/, const any_row_optimizer& /*by*/, const executor_ref& /*executor*/) const {}
};

} // namespace

TEST_CASE("a loss of one's own on the labels trains the bits of the library's, and is refused beside class weights") {
    const graph_harness::graph_data data = graph_harness::graph_data::planted(90, 3);
    graph_harness::set_up with;
    with.rows = false;
    with.features = test::feature_form{};
    with.layers = "sage:8,sage:4";
    std::atomic<int> calls{0};
    const auto train = [&](std::optional<any_loss_head> head, std::vector<float> class_weights = {}) {
        graph_harness::gnn_harness all(data, with);
        all.own_head = std::move(head);
        all.class_weights = std::move(class_weights);
        std::vector<training_statistics> epochs;
        all.run([&](mariusgnn_trainer& training, const auto& states) {
            for (std::uint64_t e = 0; e < 2; ++e) epochs.push_back(training.run(states(e), e).model);
        });
        return all.end(std::move(epochs));
    };
    const auto expected = train({});
    CHECK(train(same_head{{}, &calls}) == expected);
    CHECK(calls > 0);
    CHECK_THROWS_WITH_AS((void)train(same_head{{}, &calls}, {1, 2, 1, 1}), doctest::Contains("class weights"), error);
}

} // namespace test_train_fit
