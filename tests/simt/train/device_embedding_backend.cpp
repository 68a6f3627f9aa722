#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/train/device_embedding_backend.cuh>

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <simt/train/support.hpp>
#include <support/temporary_directory.hpp>
#include <train/link_harness.hpp>

namespace test_simt_train_device_embedding_compute {

using namespace link_harness;
using namespace simt_pipeline;
using gneiss::test::temporary_directory;

namespace {

/// Trains on the emulated device.
compute_factory on_device(
    memory_budget& budget, const std::optional<device_embeddings>& keep = {}, bool recorded = false) {
    return [&budget, keep, recorded](const set_up& with, embedding_table& relations) {
        return std::optional<any_backend>(std::in_place, std::in_place_type<cuda::device_embedding_backend>, budget,
            decoder_setup{.decoder = with.decoder,
                .loss = with.loss,
                .margin = 1,
                .dim = with.dim,
                .options = with.model,
                .batch = with.training.batch_edges,
                .negatives = with.training.negatives,
                .relations = relations,
                .recorded = recorded},
            keep);
    };
}

/// Checks that losses and parameters of a short run equal those of the CPU up to rounding.
void check_run(toy_graph& graph, const set_up& with) {
    CAPTURE(with.decoder);
    CAPTURE(with.loss);
    const temporary_directory directory;
    const outcome want = train(graph, with, directory / "cpu");
    memory_budget budget;
    const outcome got = train(graph, with, directory / "device", 0, on_device(budget));
    CHECK(std::abs(got.loss - want.loss) <= 1e-4 * std::abs(want.loss));
    CHECK(got.masked == want.masked);
    CHECK(difference(got.rows, want.rows) < 2e-3);
    CHECK(difference(got.relations, want.relations) < 2e-3);
}

set_up small(const std::string& decoder, const std::string& loss) {
    set_up with;
    with.decoder = decoder;
    with.loss = loss;
    with.dim = 6;
    with.optimizer = "sgd"; // the others initially divide rounding errors by small sums
    with.epochs = 1;
    with.training.batch_edges = 60;
    with.training.negatives = {.per_chunk = 12, .chunks = 2, .degree_fraction = .5};
    with.training.pipeline = {.staleness = 0};
    return with;
}

} // namespace

TEST_CASE("simt.train.device_embedding_backend: a run on the device equals one on the CPU") {
    toy_graph graph(60, 4, 3, 300, 1);
    for (const char* decoder : {"dot", "distmult", "complex", "transe"}) check_run(graph, small(decoder, "softmax"));
    for (const char* loss : {"marius", "logistic", "margin"}) check_run(graph, small("complex", loss));
    set_up with = small("distmult", "softmax");
    with.model = {.reduce = reduction::mean,
        .penalty = {.penalty = norm_penalty::n3, .weight = .01},
        .reciprocal = true,
        .tuning = {}};
    with.training.negatives.filtered = true;
    check_run(graph, with);
    with.training.step_at = step_place::compute;
    check_run(graph, with);
    with.optimizer = "adagrad";
    check_run(graph, with);
}

TEST_CASE("simt.train.device_embedding_backend: chunks of any number, or all nodes as negatives, train as on the CPU") {
    toy_graph graph(60, 4, 3, 300, 1);
    set_up with = small("distmult", "softmax");
    with.training.negatives = {.per_chunk = 12, .chunks = 0, .all = true};
    check_run(graph, with);
    for (const std::uint32_t chunks : {0U, 1U, 7U, 1000U}) { // 0: by the size of a batch; at most one a positive
        with.training.negatives = {.per_chunk = 12, .chunks = chunks};
        check_run(graph, with);
    }
}

TEST_CASE("simt.train.device_embedding_backend: replicas share the steps of relations as on the CPU") {
    toy_graph graph(60, 4, 3, 300, 1);
    for (const std::uint32_t count : {2U, 5U}) {
        set_up with = small("distmult", "softmax");
        with.training.replicas.count = count;
        check_run(graph, with);
        with.training.replicas = {.count = count, .only = count - 1, .reducer = any_reducer{}};
        check_run(graph, with);
    }
}

TEST_CASE("simt.train.device_embedding_backend: batches overlap, and a run stopped anywhere resumes to the same bits") {
    toy_graph graph(60, 4, 3, 300, 2);
    const temporary_directory directory;
    memory_budget budget;
    set_up with = small("complex", "softmax");
    const outcome want = train(graph, with, directory / "whole", 0, on_device(budget));
    const outcome stopped = train(graph, with, directory / "stopped", 3, on_device(budget));
    CHECK(same_parameters(stopped, want));
    with.training.pipeline = {.staleness = 2, .deterministic = true};
    const outcome overlapped = train(graph, with, directory / "overlapped", 0, on_device(budget));
    CHECK(overlapped == train(graph, with, directory / "again", 0, on_device(budget)));
    CHECK(overlapped.loss != want.loss);
}

TEST_CASE("simt.train.device_embedding_backend: resident rows are stepped like copied ones") {
    toy_graph graph(60, 4, 3, 300, 4);
    const temporary_directory directory;
    memory_budget budget;
    set_up with = small("complex", "softmax");
    with.optimizer = "adagrad";
    with.order = "memory";
    with.order_slots = with.buffer_slots = 4;
    const device_embeddings keep{60, {with.dim, with.dim}};
    const outcome want = train(graph, with, directory / "come and go", 0, on_device(budget));
    CHECK(train(graph, with, directory / "kept", 0, on_device(budget, keep)) == want);
    CHECK(same_parameters(train(graph, with, directory / "stopped", 3, on_device(budget, keep)), want));
    with.buffer_slots = 2;
    CHECK_THROWS_AS((void)train(graph, with, directory / "some", 0, on_device(budget, keep)), error);
}

TEST_CASE("simt.train.device_embedding_backend: recorded steps give the bits of eager ones, in fewer launches") {
    toy_graph graph(60, 4, 3, 300, 5);
    const temporary_directory directory;
    int run = 0;
    const auto compare = [&](const set_up& with, const std::optional<device_embeddings>& keep = {}) {
        CAPTURE(with.decoder);
        CAPTURE(keep.has_value());
        memory_budget budget;
        const auto calls_of = [&](bool recorded, outcome& made, std::uint64_t stop = 0) {
            const cuda::device_calls before = cuda::calls_so_far();
            made = train(graph, with, directory / std::to_string(run++), stop, on_device(budget, keep, recorded));
            return cuda::calls_so_far() - before;
        };
        outcome eager, recorded, stopped;
        const cuda::device_calls plain = calls_of(false, eager), fast = calls_of(true, recorded);
        CHECK(recorded == eager);
        CHECK(plain.recorded_steps + plain.eager_steps == 0);
        CHECK(fast.recorded_steps > fast.eager_steps);
        CHECK(fast.launches < plain.launches / 2);
        (void)calls_of(true, stopped, 5);
        CHECK(same_parameters(stopped, eager));
    };
    set_up with = small("complex", "softmax");
    with.epochs = 5;
    with.order = "memory";
    with.order_slots = with.buffer_slots = 4;
    compare(with);
    with.optimizer = "adagrad";
    compare(with, device_embeddings{60, {with.dim, with.dim}});
    with.training.pipeline = {.staleness = 2, .deterministic = true};
    compare(with);
    with.training.pipeline = {.staleness = 0};
    with.decoder = "distmult";
    with.loss = "marius";
    with.training.negatives.filtered = true; // masks of other sizes from batch to batch
    with.training.step_at = step_place::compute;
    compare(with);
    with.training.step_at = set_up{}.training.step_at;
    with.training.replicas.count = 3; // sums and update of a step are not recorded
    compare(with);
}

TEST_CASE("simt.train.device_embedding_backend: a recorded step allocates nothing, and waits for its results alone") {
    toy_graph graph(60, 4, 3, 300, 5);
    const temporary_directory directory;
    for (const bool keep : {false, true}) {
        CAPTURE(keep);
        const auto calls_of = [&](std::uint64_t epochs) {
            set_up with = small("complex", "softmax");
            with.epochs = epochs;
            with.order = "memory";
            with.order_slots = with.buffer_slots = 4;
            memory_budget budget;
            const std::optional<device_embeddings> rows =
                keep ? std::optional(device_embeddings{60, {with.dim, 0}}) : std::nullopt;
            const cuda::device_calls before = cuda::calls_so_far();
            (void)train(graph, with, directory / (std::to_string(epochs) + (keep ? "kept" : "")), 0,
                on_device(budget, rows, true));
            return cuda::calls_so_far() - before;
        };
        const cuda::device_calls last = calls_of(6) - calls_of(5); // those of the sixth epoch
        CHECK(last.eager_steps == 0);
        REQUIRE(last.recorded_steps > 0);
        CHECK(last.launches == last.recorded_steps);
        CHECK(last.allocations == 0);
        CHECK(last.recordings == 0);
        CHECK(last.waits <= last.recorded_steps + (keep ? 3 : 2)); // tables come and go with an epoch
    }
}

TEST_CASE("simt.train.device_embedding_backend: impossible options are refused with the reason") {
    embedding_table relations(3, {6, 0});
    const auto make = [&](const std::string& decoder, const std::string& loss, std::uint32_t dim,
                          memory_budget& budget) {
        cuda::device_embedding_backend result(budget,
            {.decoder = decoder,
                .loss = loss,
                .margin = 1,
                .dim = dim,
                .options = {},
                .batch = 0,
                .negatives = {},
                .relations = relations});
    };
    memory_budget budget, none(memory_budget::unlimited, memory_budget::unlimited, 16);
    CHECK_THROWS_WITH_AS(make("holographic", "softmax", 6, budget), doctest::Contains("holographic"), error);
    CHECK_THROWS_WITH_AS(make("complex", "hinge", 6, budget), doctest::Contains("hinge"), error);
    CHECK_THROWS_AS(make("complex", "softmax", 7, budget), error);
    CHECK_THROWS_AS(make("complex", "softmax", 6, none), over_budget);
    embedding_table wide(3, {400, 0});
    for (auto* of : {&relations, &wide}) {
        const cuda::device_embedding_backend result(budget,
            {.decoder = "complex",
                .loss = "softmax",
                .margin = 1,
                .dim = of->layout().dim,
                .options = {},
                .batch = 0,
                .negatives = {},
                .relations = *of});
        CHECK(result.path() == (of == &wide ? cuda::link_path::scores : cuda::link_path::tiles));
    }
}

TEST_CASE("simt.train.device_embedding_backend: a NaN loss is reported with its batch, and nothing hangs") {
    toy_graph graph(60, 4, 3, 300, 3);
    const temporary_directory directory;
    memory_budget budget;
    const auto poisoned = [&](const set_up& with, embedding_table& relations) {
        relations.values()[1][0] = std::numeric_limits<float>::quiet_NaN();
        return on_device(budget)(with, relations);
    };
    check_not_finite([&] { (void)train(graph, small("distmult", "softmax"), directory / "rows", 0, poisoned); });
}

} // namespace test_simt_train_device_embedding_compute
