// Fails the N-th allocation: a pipeline and a trainer end with an error or are right, and never hang.
#include "support/replaced_new.hpp"

#include "train/graph_harness.hpp"
#include "train/link_harness.hpp"

#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/memory.hpp>
#include <gneiss/train/training_pipeline.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace test_train_out_of_memory {

using namespace gneiss;
using gneiss::test::fail_each_allocation;

namespace {

struct numbers {
    std::vector<std::uint64_t> values;
    [[nodiscard]] std::uint64_t bytes() const { return values.size() * sizeof(std::uint64_t); }
};

/// Returns the sum over `batches` batches of growing size, made, doubled and added in stages.
std::uint64_t run_pipeline(std::uint64_t batches, const pipeline_options& how) {
    std::uint64_t sum = 0;
    std::vector<std::unique_ptr<numbers>> all;
    for (int i = 0; i < 5; ++i) all.push_back(std::make_unique<numbers>());
    training_pipeline<numbers> pipeline(
        {.sample = [](numbers& b) { b.values.resize(b.values.size() * 2, 1); },
            .gather = [](numbers& b) { b.values.push_back(1); },
            .compute = [](numbers& b) { b.values = std::vector<std::uint64_t>(b.values); },
            .update = [&](numbers& b) { sum += std::accumulate(b.values.begin(), b.values.end(), std::uint64_t{0}); }},
        how, std::move(all));
    for (std::uint64_t i = 0; i < batches; ++i) {
        auto b = pipeline.take();
        b->values.assign(i + 1, 1);
        pipeline.submit(std::move(b), batches - 1 - i);
    }
    pipeline.drain();
    return sum;
}

} // namespace

TEST_CASE("training_pipeline: a stage whose allocation fails ends the run with an error") {
    for (const std::uint64_t staleness : {0, 3})
        for (const bool deterministic : {false, true}) {
            CAPTURE(staleness);
            CAPTURE(deterministic);
            const pipeline_options how{.staleness = staleness, .deterministic = deterministic, .sample_workers = 2};
            std::uint64_t sum = 0;
            const std::uint64_t failed = fail_each_allocation([&] { sum = run_pipeline(8, how); },
                [&](std::uint64_t at, bool threw) {
                    CAPTURE(at);
                    if (!threw) CHECK(sum == 8 * 9 + 8);
                });
            CHECK(failed > 20);
        }
}

TEST_CASE("embedding_trainer: a run with a failed allocation ends with an error, or is right") {
    link_harness::toy_graph graph(24, 3, 2, 90, 1);
    const memory_file_system disk;
    for (const std::uint64_t staleness : {0, 2}) {
        CAPTURE(staleness);
        link_harness::set_up with;
        with.engines = [&] { return any_engine(memory_engine(disk)); };
        with.epochs = 1;
        with.dim = 4;
        with.training.batch_edges = 30;
        with.training.negatives = {.per_chunk = 5, .chunks = 2};
        with.training.pipeline.staleness = staleness;
        with.training.pipeline.deterministic = true;
        const link_harness::outcome expected = link_harness::train(graph, with, "rows");
        link_harness::outcome got;
        const std::uint64_t failed = fail_each_allocation([&] { got = link_harness::train(graph, with, "rows"); },
            [&](std::uint64_t at, bool threw) {
                CAPTURE(at);
                if (!threw) CHECK(got == expected);
            });
        MESSAGE(failed, " allocations failed");
    }
}

TEST_CASE("gnn_trainer: a run with a failed allocation ends with an error, or is right") {
    const graph_harness::graph_data data = graph_harness::graph_data::random(40, 2, 2, 120, 1);
    for (const bool links : {false, true}) {
        CAPTURE(links);
        graph_harness::set_up with;
        with.links = links;
        with.rows = links;
        if (!links) with.features = gneiss::test::feature_form{};
        with.layers = "sage:4";
        with.dim = 4;
        with.epochs = 1;
        with.training.batch = 30;
        with.training.negatives = {.per_chunk = 5, .chunks = 2};
        with.training.neighbors = {.fanout = {{.in = 3}}};
        const graph_harness::outcome expected = graph_harness::train(data, with);
        graph_harness::outcome got;
        const std::uint64_t failed = fail_each_allocation([&] { got = graph_harness::train(data, with); },
            [&](std::uint64_t at, bool threw) {
                CAPTURE(at);
                if (!threw) CHECK(got == expected);
            });
        MESSAGE(failed, " allocations failed");
    }
}

} // namespace test_train_out_of_memory
