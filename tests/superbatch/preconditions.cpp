// A wrong argument is a typed error, in release builds too: it reads or writes nothing beyond its arrays, and ends.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/node_set.hpp>
#include <gneiss/sample/candidate_negatives.hpp>
#include <gneiss/sample/link_batches.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/superbatch/superbatch.hpp>
#include <gneiss/superbatch/superbatch_inspector.hpp>
#include <gneiss/superbatch/superbatch_sampler.hpp>
#include <sample/graphs.hpp>
#include <storage/csc.hpp>
#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

namespace test_sampling_preconditions {

using namespace gneiss;
using test::code_of;

namespace {

struct one_set {
    node_set set{10};
    [[nodiscard]] const node_set& of(const link_query&) const { return set; }
};

} // namespace

TEST_CASE("batches of nodes and links exist, and labels are of their nodes") {
    const node_batches batches({0, 1, 2, 3, 4}, 2, 1, 0, 0);
    std::vector<node_id> seeds;
    CHECK(code_of([&] { batches.choose(batches.size(), seeds); }) == errc::out_of_range);
    CHECK(code_of([&] { batches.choose(~0ULL, seeds, 3); }) == errc::out_of_range);
    CHECK(code_of([] { (void)node_batches({0, 1}, 0, 1, 0, 0); }) == errc::invalid_argument);
    const std::vector<class_id> labels{0, 1};
    const std::vector<node_id> beyond{0, 2};
    std::vector<class_id> found;
    CHECK(code_of([&] { labels_of(beyond, labels, 2, found); }) == errc::out_of_range);

    memory_budget budget;
    edge_buffer buffer({.size = [](edge_bucket) { return edge_index{4}; },
                           .load =
                               [](edge_bucket, std::span<edge> to) {
                                   for (edge& e : to) e = {1, 0, 6};
                               }},
        {.partitions = 2}, budget);
    {
        const row_partitioning rows{10, 2};
        const buffer_state state{.resident = {0, 1}, .edge_buckets = {{0, 1}}};
        buffer.begin_epoch({state});
        const auto edges = buffer.acquire(0);
        const link_state right(state, rows, edges, 2, batch_scope::state, 1, 0, 0);
        mini_batch_arena arena;
        link_sampler<> sampler({.per_chunk = 3}, 1);
        CHECK_NOTHROW((void)sampler.sample({0, {0, 0, 1}}, right, arena));
        CHECK(code_of([&] { (void)sampler.sample({0, {0, 0, 2}}, right, arena); }) == errc::out_of_range);
        CHECK(code_of([&] { (void)link_state(state, rows, nullptr, 2, batch_scope::state, 1, 0, 0); }) ==
            errc::invalid_argument);
        const buffer_state beyond_rows{.resident = {0, 9}, .edge_buckets = {}};
        CHECK(code_of([&] { (void)link_state(beyond_rows, rows, edges, 2, batch_scope::state, 1, 0, 0); }) ==
            errc::invalid_argument);
    }
}

TEST_CASE("negatives from candidates need sets and positives") {
    CHECK(code_of([] { (void)candidate_negatives<one_set>({}, 1, nullptr); }) == errc::invalid_argument);
    auto sets = std::make_shared<one_set>();
    sets->set.finish();
    sets->set.index();
    const candidate_negatives<one_set> negatives({.per_chunk = 4}, 1, sets);
    const std::vector<id_range> ranges{{0, 10}};
    const negative_pool pool{resident_nodes(ranges)};
    std::vector<node_id> list(4);
    CHECK(code_of([&] { negatives.draw({}, 0, side::tail, {}, pool, list); }) == errc::invalid_argument);
}

TEST_CASE("a superbatch without a cache has no change sets, and without requests no misses") {
    const test::temporary_directory directory;
    const serial_executor on;
    const auto graph = test::whole_graph(60, test::hub_edges(60, 300, 1));
    const auto make = [] { return neighbor_sampler<>({.fanout = {{.in = 3}}}, 7); };
    const auto inspect = [&](superbatch_options options, superbatch_inspector::surroundings around) {
        options.directory = directory.path();
        superbatch_inspector inspector(options, std::move(around), {0, 0});
        const auto first = inspector.next({});
        change_set change;
        bitmap cached(60);
        CHECK(code_of([&] { first->changes({}, change); }) == errc::invalid_argument);
        CHECK(code_of([&] { first->for_each_miss(cached, [](auto&&...) {}); }) == errc::invalid_argument);
        inspector.halt();
    };
    const auto around = [&](bool with_batches) {
        superbatch_inspector::surroundings result{.sampler = {graph, make}, .batches = {}, .nodes = 0, .on = on};
        if (with_batches)
            result.batches = [](std::uint64_t epoch) {
                return node_batches(test::some_nodes(60, 60, 1), 3, 5, epoch, 0);
            };
        return result;
    };
    inspect({.batches = 2}, around(true));
    CHECK(code_of([&] { inspect({.batches = 2}, around(false)); }) == errc::invalid_argument);
    CHECK(code_of([&] { inspect({.batches = 2, .cache_capacity = 5, .direct_table = true}, around(true)); }) ==
        errc::invalid_argument);
}

TEST_CASE("a superbatch sampler reads batches that exist, and samples those that it read") {
    const test::stored_lists data(300, 3, test::lists_edges(300, 2000));
    memory_budget budget;
    const serial_executor on;
    const disk_csc graph({data.files.in, {}}, [] { return any_engine(threads_engine(2)); }, budget);
    superbatch_sampler sampler(graph, 1, [] { return neighbor_sampler<>({.fanout = {{.in = 3}}}, 1); }, {}, on, budget);
    const node_batches batches(test::some_nodes(300, 90, 2), 30, 1, 0, 0);
    mini_batch_arena arena;
    std::vector<node_id> seeds;
    batches.choose(0, seeds);
    CHECK(code_of([&] { (void)sampler.sample(0, seeds, arena); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)sampler.read(0, batches, 1, 1, {}); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)sampler.read(0, batches, 2, 1, {}); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)sampler.read(0, batches, 0, 9, {}); }) == errc::invalid_argument);
    CHECK(sampler.read(0, batches, 0, 3, {}));
    CHECK_NOTHROW((void)sampler.sample(0, seeds, arena));
}

} // namespace test_sampling_preconditions
