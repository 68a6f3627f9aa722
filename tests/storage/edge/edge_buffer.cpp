#include <gneiss/storage/edge/edge_buffer.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>

namespace test_storage_edge_edge_buffer {

using namespace gneiss;

TEST_CASE("bytes_needed counts the largest two consecutive states; where all edges are kept, each bucket once") {
    constexpr std::array<edge_index, 3> sizes{1000, 10, 400};
    std::uint64_t loaded = 0;
    const edge_loader source{.size = [&](edge_bucket b) { return sizes[b.first]; },
        .load = [&](edge_bucket, std::span<edge> to) { loaded += to.size_bytes(); }};
    epoch_plan states(4);
    const std::array<partition_id, 4> order{0, 1, 2, 1};
    for (std::size_t s = 0; s < states.size(); ++s) states[s] = {.resident = {order[s]}, .edge_buckets = {{order[s], order[s]}}};
    CHECK(edge_buffer::bytes_needed(states, source) == 1010 * sizeof(edge));

    const std::uint64_t all = edge_buffer::bytes_needed(states, source, true);
    CHECK(all == 1410 * sizeof(edge));
    memory_budget budget;
    edge_buffer kept(source, 3, true, all, budget);
    for (int epoch = 0; epoch < 2; ++epoch) {
        kept.begin_epoch(states);
        for (std::uint32_t s = 0; s < states.size(); ++s) CHECK(kept.acquire(s)->size() == sizes[order[s]]);
    }
    CHECK(loaded == all);
}

TEST_CASE("no more edges than were charged are in memory, though a batch of the first state is still cut when the second is through") {
    constexpr std::array<edge_index, 3> sizes{1000, 10, 1000};
    const edge_loader source{.size = [&](edge_bucket b) { return sizes[b.first]; }, .load = [](edge_bucket, std::span<edge>) {}};
    epoch_plan states(3);
    for (partition_id p = 0; p < 3; ++p) states[p] = {.resident = {p}, .edge_buckets = {{p, p}}};
    memory_budget budget;
    const std::uint64_t charged = edge_buffer::bytes_needed(states, source);
    edge_buffer edges(source, 3, false, charged, budget);
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

} // namespace test_storage_edge_edge_buffer
