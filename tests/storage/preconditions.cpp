// A wrong call is a typed error, in release builds too: it reads or writes nothing beyond its arrays, and ends.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/storage/adjacency/csc_files.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/adjacency/neighbor_coverage.hpp>
#include <gneiss/storage/adjacency/neighbor_pass.hpp>
#include <gneiss/storage/edge/bucketed_edges.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/engine/threads.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <storage/buckets.hpp>
#include <storage/csc.hpp>
#include <storage/features.hpp>
#include <support/error_code.hpp>
#include <support/temporary_directory.hpp>

namespace test_storage_preconditions {

using namespace gneiss;
using test::code_of;

namespace {

engine_factory threads() {
    return [] { return any_engine(threads_engine(2)); };
}

const row_partitioning rows{20, 2};
const std::vector<edge> some_edges{{0, 0, 1}, {1, 0, 15}, {12, 0, 3}, {19, 0, 19}};
const epoch_plan two_states{
    {.resident = {0}, .edge_buckets = {{0, 0}}}, {.resident = {0, 1}, .edge_buckets = {{0, 1}, {1, 0}, {1, 1}}}};
const epoch_plan beyond{{.resident = {0, 7}, .edge_buckets = {{0, 7}}}};

/// States of a buffer are acquired in order, once each, within an epoch: everything else is refused rather than
/// awaited.
template <class Buffer>
void check_order(Buffer& buffer) {
    CHECK(code_of([&] { (void)buffer.acquire(0); }) == errc::invalid_argument); // no epoch
    for (int epoch = 0; epoch < 2; ++epoch) {
        buffer.begin_epoch(two_states);
        CHECK(code_of([&] { (void)buffer.acquire(1); }) == errc::invalid_argument);
        CHECK(buffer.acquire(0) != nullptr);
        CHECK(code_of([&] { (void)buffer.acquire(0); }) == errc::invalid_argument);
        CHECK(buffer.acquire(1) != nullptr);
        CHECK(code_of([&] { (void)buffer.acquire(2); }) == errc::invalid_argument);
    }
    CHECK(code_of([&] { buffer.begin_epoch(beyond); }) == errc::invalid_argument);
}

} // namespace

TEST_CASE("edge buffers refuse loaders without functions, plans of other partitions and states out of order") {
    memory_budget budget;
    const bucketed_edges edges(some_edges, {.partitions = 2, .nodes = 20});
    const auto source = edges.open({});
    CHECK(code_of([&] { (void)edge_buffer({.size = {}, .load = source.loader.load}, {.partitions = 2}, budget); }) ==
        errc::invalid_argument);
    CHECK(code_of([&] { (void)edge_buffer::need(two_states, edge_loader{}).bytes; }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)edge_buffer::need(beyond, source.loader).bytes; }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)source.loader.size({0, 7}); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)bucketed_edges(some_edges, {.partitions = ~0U}); }) == errc::unsupported);
    edge_buffer buffer(source.loader, {}, budget);
    check_order(buffer);
}

TEST_CASE(
    "graph buffers, readers of buckets and their store refuse partitions beyond, other sizes and missing engines") {
    const test::temporary_directory directory;
    const bucket_store store = test::build(directory.path(), {rows, 1}, some_edges);
    memory_budget budget;
    CHECK(code_of([&] { (void)store.extent({0, 2}); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)store.read({2, 0}, edge_direction::out); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)graph_buffer::need(beyond, store, neighbor_direction::in).bytes; }) ==
        errc::invalid_argument);
    for (const graph_form form : {graph_form::blocks, graph_form::csr}) {
        graph_buffer buffer(store, threads(), neighbor_direction::both, 0, budget, {.form = form});
        CHECK(code_of([&] { (void)buffer.first_edge({3, 0}); }) == errc::out_of_range);
        check_order(buffer);
    }
    graph_buffer without(store, {}, neighbor_direction::both, 0, budget);
    without.begin_epoch(two_states);
    CHECK(code_of([&] { (void)without.acquire(0); }) == errc::invalid_argument);

    bucket_reader reader(store, threads());
    std::vector<edge> one(1), none;
    CHECK_NOTHROW(reader.load({0, 0}, one));
    CHECK(code_of([&] { reader.load({0, 0}, none); }) == errc::invalid_argument);
    CHECK(code_of([&] { reader.load({0, 5}, none); }) == errc::out_of_range);
    const std::vector<edge_bucket> buckets{{0, 0}, {0, 1}};
    const std::vector<std::span<edge>> to{one};
    CHECK(code_of([&] { reader.load(buckets, to); }) == errc::invalid_argument);
    CHECK(code_of([&] { bucket_reader(store, {}).load({0, 0}, one); }) == errc::invalid_argument);

    block_reader blocks(store, threads());
    CHECK(code_of([&] { (void)blocks.finish(); }) == errc::invalid_argument);
    const std::vector<block_place> place{{{0, 0}}};
    blocks.start(place);
    CHECK(code_of([&] { (void)blocks.read(place); }) == errc::invalid_argument);
    CHECK(blocks.finish().size() == 1);

    const std::vector<partition_id> falling{1, 0}, far{0, 9}, right{0, 1};
    CHECK(code_of([&] { (void)neighbor_coverage(store, falling, neighbor_direction::in); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)neighbor_coverage(store, far, neighbor_direction::in); }) == errc::out_of_range);
    CHECK(code_of([&] { (void)neighbor_coverage(store, right, neighbor_direction::in, 2); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)csc_stamp::of(store, neighbor_direction::both); }) == errc::invalid_argument);
}

TEST_CASE("graphs in memory are of partitions that exist, with all their blocks or lists") {
    CHECK(code_of([] {
        (void)resident_graph(rows, {1, 0}, neighbor_direction::in, {}, std::vector<resident_graph::block>(4));
    }) == errc::invalid_argument);
    CHECK(code_of([] {
        (void)resident_graph(rows, {0, 5}, neighbor_direction::in, {}, std::vector<resident_graph::block>(4));
    }) == errc::invalid_argument);
    CHECK(code_of([] {
        (void)resident_graph(rows, {0, 1}, neighbor_direction::both, {}, std::vector<resident_graph::block>(4));
    }) == errc::invalid_argument);
    CHECK(code_of([] { (void)resident_graph(rows, nullptr, nullptr); }) == errc::invalid_argument);
    const auto lists = [](std::vector<partition_id> of) {
        return std::make_shared<resident_csr>(rows, std::move(of), 0, csr_options{});
    };
    CHECK(code_of([&] { (void)lists({0, 2}); }) == errc::invalid_argument);
    CHECK(code_of([&] { (void)resident_graph(rows, lists({0}), lists({1})); }) == errc::invalid_argument);
    const auto some = lists({0}), others = lists({1});
    const std::vector<resident_csr::part> copied{{.partner = 0}}, far{{.partner = 8}};
    CHECK(code_of([&] { some->append(copied); }) == errc::invalid_argument);
    CHECK(code_of([&] { some->append(copied, others.get()); }) == errc::invalid_argument);
    CHECK(code_of([&] { some->append(far); }) == errc::invalid_argument);
    CHECK_NOTHROW(some->append({}));
    CHECK(code_of([&] { some->append({}); }) == errc::invalid_argument);
}

TEST_CASE("feature buffers refuse plans of other partitions, states out of order and nodes that are not resident") {
    for (const bool sparse : {false, true}) {
        const test::temporary_directory directory;
        std::vector<float> values(20 * 3, 1);
        const feature_store store(
            test::feature_writer(directory.path(), rows, {.sparse = sparse}).write(values, 3), rows);
        memory_budget budget;
        CHECK(code_of([&] { (void)store.range(2, feature_part::values); }) == errc::out_of_range);
        CHECK(code_of([&] { (void)store.first_entry(3); }) == (sparse ? errc::out_of_range : errc::invalid_argument));
        CHECK(code_of([&] { store.check(9, {}, {}); }) == (sparse ? errc::out_of_range : errc::invalid_argument));
        CHECK(code_of([&] { (void)feature_buffer::need(beyond, store).bytes; }) == errc::invalid_argument);
        CHECK(code_of([&] { (void)resident_features(store, {}); }) == errc::invalid_argument);
        feature_buffer buffer(store, threads(), 0, budget);
        check_order(buffer);
        buffer.begin_epoch(two_states);
        const auto first = buffer.acquire(0);
        CHECK(first->resident(0));
        CHECK_FALSE(first->resident(1));
        CHECK_FALSE(first->resident(2));
        const std::vector<node_id> elsewhere{0, 15};
        std::vector<float> out(2 * 3);
        sparse_feature_rows sparse_out;
        if (sparse)
            CHECK(code_of([&] { first->gather(serial_executor{}, elsewhere, sparse_out); }) == errc::out_of_range);
        else
            CHECK(code_of([&] { first->gather(serial_executor{}, elsewhere, matrix_view<float>(out.data(), 2, 3)); }) ==
                errc::out_of_range);
        feature_reader reader(store, threads());
        const std::vector<partition_id> both{0, 1};
        std::vector<feature_block> one(1);
        CHECK(code_of([&] { reader.read(both, one); }) == errc::invalid_argument);
        CHECK(
            code_of([&] { feature_reader(store, {}).read(std::span(both).first(1), one); }) == errc::invalid_argument);
    }
    CHECK(code_of([] { (void)feature_store({}, {0, 0}); }) == errc::invalid_argument);
}

TEST_CASE("readers of lists on disk refuse requests of no size, batches beyond a pass, ranks beyond the nodes and "
          "missing engines") {
    const test::stored_lists data(300, 3, test::lists_edges(300, 2000));
    memory_budget budget;
    const disk_csc graph({data.files.in, {}}, threads(), budget);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{1} << 40})
        CHECK(code_of([&] { (void)graph.read_blocks({}, {0, bytes}, {}, {}, [](auto&&...) {}); }) ==
            errc::invalid_argument);
    neighbor_pass pass(graph);
    CHECK_NOTHROW(pass.replay(0));
    CHECK(code_of([&] { pass.collect(1); }) == errc::out_of_range);
    pass.begin(2, 1, 1 << 16);
    CHECK_NOTHROW(pass.collect(1));
    CHECK(code_of([&] { pass.replay(2); }) == errc::out_of_range);
    const std::vector<node_id> ranked{5, 900};
    CHECK(code_of([&] {
        neighbor_cache::build(data.directory.path() / "cache", data.graph, neighbor_direction::in, ranked, 1 << 20, 1);
    }) == errc::out_of_range);
    const disk_csc without({data.files.in, {}}, {}, budget);
    const std::vector<node_id> ids{0};
    const std::vector<std::uint32_t> offsets{0, 0};
    CHECK(code_of([&] { without.neighbors_at({ids, neighbor_direction::in, offsets, {}}, {}); }) ==
        errc::invalid_argument);
}

// Objects refuse temporaries that must outlive them.
static_assert(!std::is_constructible_v<graph_buffer, bucket_store, engine_factory, neighbor_direction, std::uint64_t,
    memory_budget&>);
static_assert(!std::is_constructible_v<feature_buffer, feature_store, engine_factory, std::uint64_t, memory_budget&>);
static_assert(!std::is_constructible_v<bucket_reader, bucket_store, engine_factory>);
static_assert(!std::is_constructible_v<block_reader, bucket_store, engine_factory>);
static_assert(!std::is_constructible_v<feature_reader, feature_store, engine_factory>);
static_assert(!std::is_constructible_v<neighbor_pass, disk_csc>);

} // namespace test_storage_preconditions
