#include <gneiss/storage/edge/edge_buffer.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "support/error_code.hpp"

namespace test_storage_edge_edge_buffer {

using namespace gneiss;

TEST_CASE("bytes_needed counts the largest two consecutive states; with cache_all, each bucket once") {
    constexpr std::array<edge_index, 3> sizes{1000, 10, 400};
    std::uint64_t loaded = 0;
    const edge_loader source{.size = [&](edge_bucket b) { return sizes[b.first]; },
        .load = [&](edge_bucket, std::span<edge> to) { loaded += to.size_bytes(); }};
    epoch_plan states(4);
    const std::array<partition_id, 4> order{0, 1, 2, 1};
    for (std::size_t s = 0; s < states.size(); ++s)
        states[s] = {.resident = {order[s]}, .edge_buckets = {{order[s], order[s]}}};
    CHECK(edge_buffer::need(states, source).bytes == 1010 * sizeof(edge));

    const std::uint64_t all = edge_buffer::need(states, source, {.cache_all = true}).bytes;
    CHECK(all == 1410 * sizeof(edge));
    memory_budget budget;
    edge_buffer kept(source, {.partitions = 3, .cache_all = true, .bytes = all}, budget);
    for (int epoch = 0; epoch < 2; ++epoch) {
        kept.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) CHECK(kept.acquire(s)->size() == sizes[order[s]]);
    }
    CHECK(loaded == all);
}

TEST_CASE("resident edges stay within the charge, even if a batch of the first state is cut after the second is done") {
    constexpr std::array<edge_index, 3> sizes{1000, 10, 1000};
    const edge_loader source{
        .size = [&](edge_bucket b) { return sizes[b.first]; }, .load = [](edge_bucket, std::span<edge>) {}};
    epoch_plan states(3);
    for (partition_id p = 0; p < 3; ++p) states[p] = {.resident = {p}, .edge_buckets = {{p, p}}};
    memory_budget budget;
    const std::uint64_t charged = edge_buffer::need(states, source).bytes;
    edge_buffer edges(source, {.partitions = 3, .bytes = charged}, budget);
    edges.begin_epoch(states);
    auto first = edges.acquire(0);
    edges.acquire(1).reset();
    std::stop_source late;
    {
        const std::jthread patience([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            late.request_stop();
        });
        CHECK_THROWS_AS((void)edges.acquire(2, late.get_token()), error);
    }
    first.reset();
    CHECK(edges.acquire(2)->size() == 1000);
}

TEST_CASE("edges bucketed for other partitions than those of the trainer are refused") {
    const row_partitioning eight{2000, 8}, sixteen{2000, 16};
    const auto source_of = [](const row_partitioning& rows, bool says) { // each node has an edge to itself
        edge_loader source{.size = [rows](edge_bucket b) { return b.first == b.second ? rows.size(b.first) : 0; },
            .load =
                [rows](edge_bucket b, std::span<edge> to) {
                    auto v = static_cast<node_id>(rows.begin(b.first));
                    for (edge& e : to) e = {v, 0, v}, ++v;
                }};
        if (says) source.rows = rows;
        return source;
    };
    memory_budget budget;
    edge_buffer by_sixteen(source_of(sixteen, false), {.partitions = 16}, budget),
        said(source_of(sixteen, true), {}, budget);
    CHECK_THROWS_WITH_AS(by_sixteen.expect(eight), "edges are in 16 partitions, embeddings and graph in 8", error);
    CHECK_THROWS_WITH_AS(said.expect(eight),
        "edges are of 2000 nodes in 16 partitions, embeddings and graph of 2000 nodes in 8 partitions", error);
    said.expect(sixteen);
    CHECK_THROWS_WITH_AS(edge_buffer(source_of(sixteen, true), {.partitions = 8}, budget),
        "partitions: edges are in 16 partitions, an edge buffer was made for 8", error);
    CHECK_THROWS_WITH_AS(edge_buffer(source_of(sixteen, false), {}, budget),
        "partitions: an edge buffer needs the number of partitions where the loader does not know it", error);
    const std::array<std::uint64_t, 8> sizes{100, 400, 250, 250, 250, 250, 250, 250};
    CHECK_THROWS_WITH_AS(edge_buffer(source_of(row_partitioning::of_sizes(sizes), true), {}, budget).expect(eight),
        "edges are of 2000 nodes in 8 partitions, embeddings and graph of the same number in partitions of other sizes",
        error);

    // The buffer and its user agree; the loader differs and does not report it.
    const epoch_plan states{{.resident = {0, 1}, .edge_buckets = {{0, 0}, {0, 1}, {1, 1}}}};
    edge_buffer right(source_of(eight, false), {.partitions = 8}, budget),
        wrong(source_of(sixteen, false), {.partitions = 8}, budget);
    right.expect(eight);
    right.begin_epoch(states);
    CHECK(right.acquire(0)->size() == 500);
    wrong.expect(eight);
    wrong.begin_epoch(states);
    CHECK_THROWS_WITH_AS((void)wrong.acquire(0),
        "edge (125, 0, 125) is in bucket (1, 1), but belongs to another bucket of 8 partitions", error);
}

TEST_CASE("a plan of other partitions is refused before anything is loaded") {
    const edge_loader source{
        .size = [](edge_bucket) { return 1U; }, .load = [](edge_bucket, std::span<edge>) { FAIL("loaded"); }};
    memory_budget budget;
    edge_buffer edges(source, {.partitions = 4, .cache_all = true}, budget);
    const auto refused = [&](const buffer_state& s) {
        return test::code_of([&] { edges.begin_epoch({s}); }) == errc::invalid_argument;
    };
    CHECK(refused({{0, 4}, {}}));
    CHECK(refused({{1, 0}, {}}));
    CHECK(refused({{1, 1}, {}}));
    CHECK(refused({{0, 1}, {{0, 1}, {1, 2}}}));
    CHECK_THROWS_WITH_AS(edges.begin_epoch({{{0}, {}}, {{0, 1}, {{7, 1}}}}),
        "state 1 of a plan trains edges of bucket (7, 1), whose partitions are not resident", error);
}

TEST_CASE("memory beyond the estimate of a plan is charged before loading, for two states, for one, or not at all") {
    constexpr std::array<edge_index, 3> sizes{1000, 10, 400};
    std::atomic<std::uint64_t> loads{0};
    const edge_loader source{
        .size = [&](edge_bucket b) { return sizes[b.first]; }, .load = [&](edge_bucket, std::span<edge>) { ++loads; }};
    epoch_plan states(3);
    for (partition_id p = 0; p < 3; ++p) states[p] = {.resident = {p}, .edge_buckets = {{p, p}}};
    const auto run = [&](edge_buffer& edges, std::uint32_t first = 0) {
        edges.begin_epoch(states, first);
        for (std::uint32_t s = first; s < states.size(); ++s) CHECK(edges.acquire(s)->size() == sizes[s]);
    };
    SUBCASE("two states: charged once, and no less for later plans") {
        memory_budget budget(1010 * sizeof(edge));
        edge_buffer edges(source, {.partitions = 3, .bytes = 7}, budget);
        run(edges, 1);
        CHECK(budget.used() == 410 * sizeof(edge));
        run(edges);
        run(edges, 1);
        CHECK(budget.used() == 1010 * sizeof(edge));
    }
    SUBCASE("cache_all: all edges, each bucket once") {
        memory_budget budget(1410 * sizeof(edge));
        edge_buffer edges(source, {.partitions = 3, .cache_all = true}, budget);
        run(edges, 1);
        CHECK(budget.used() == 410 * sizeof(edge));
        run(edges);
        run(edges);
        CHECK(budget.used() == 1410 * sizeof(edge));
        CHECK(loads == 3);
    }
    SUBCASE("one state: the next waits until it is released") {
        memory_budget budget(1009 * sizeof(edge));
        edge_buffer edges(source, {.partitions = 3}, budget);
        edges.begin_epoch(states);
        auto first = edges.acquire(0);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CHECK(loads == 1);
        first.reset();
        CHECK(edges.acquire(1)->size() == 10);
        CHECK(edges.acquire(2)->size() == 400);
        CHECK(budget.used() == 1000 * sizeof(edge));
    }
    SUBCASE("not even one state: an error with the numbers, and nothing is loaded") {
        for (const bool all : {false, true}) {
            memory_budget budget(999 * sizeof(edge));
            edge_buffer edges(source, {.partitions = 3, .cache_all = all, .bytes = 100}, budget);
            try {
                edges.begin_epoch(states);
                FAIL("accepted");
            } catch (const over_budget& e) {
                CHECK(e.needed() == (all ? 1410 : 1000) * sizeof(edge));
                CHECK(e.limit() == 999 * sizeof(edge));
                CHECK(std::string(e.what()).find("edges") != std::string::npos);
            }
            CHECK(loads == 0);
        }
    }
}

} // namespace test_storage_edge_edge_buffer
