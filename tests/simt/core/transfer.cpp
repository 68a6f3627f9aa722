#include <gneiss/cuda/core/transfer.cuh>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/sample/mini_batch.hpp>

#include <doctest/doctest.h>
#include <simt/support.hpp>

namespace test_simt_core_transfer {

using namespace gneiss;

namespace {

/// out[i] = by[i % width] · in[i]
__global__ void scale(const float* in, const float* by, std::uint32_t width, const std::uint32_t* count, float* out) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < *count) out[i] = by[i % width] * in[i];
}

std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
    std::vector<float> result(count);
    const random_key key(seed, random_domain::user);
    for (std::size_t i = 0; i < count; ++i) result[i] = to_unit_float(key[i]);
    return result;
}

constexpr std::uint32_t width = 4, most = 3000;
constexpr std::uint64_t in_bytes = 2 * cuda::transfer_slot::array_bytes(most, sizeof(float)) + 512;

/// Checks batches whose products are copied back: each in flight with its own arrays, results read late.
void check_batches(std::size_t slots, std::size_t batches, bool recorded) {
    memory_budget budget;
    cuda::stream compute, coming, leaving;
    cuda::growing_slots in(budget, "in"), back(budget, "gradients");
    in.resize(slots);
    back.resize(slots);
    std::vector<cuda::graph> steps; // per slot
    struct under_way {
        cuda::transfer_slot* slot;
        std::span<const float> result;
        std::vector<float> want;
    };
    std::vector<under_way> waiting;
    const auto check = [&] {
        waiting.front().slot->wait();
        CHECK(std::ranges::equal(waiting.front().result, waiting.front().want));
        waiting.erase(waiting.begin());
    };
    for (std::size_t k = 0; k < batches; ++k) {
        if (waiting.size() == slots) check();
        const std::size_t count = k % 5 == 3 ? 0 : (k * 977) % most;
        const std::vector<float> values = numbers(count, k), by = numbers(width, k + 1000);
        cuda::transfer_slot& to = in.begin(k % slots, in_bytes);
        const auto rows = to.room<float>(count, most);
        std::ranges::copy(values, rows.host.begin());
        const auto factors = to.put(std::span(by));
        const auto counts = to.put(std::span<const std::uint32_t>(std::vector{static_cast<std::uint32_t>(count)}));
        to.copy_in(coming);

        cuda::transfer_slot& from = back.begin(k % slots, most * sizeof(float));
        const auto result = from.room<float>(count, most);
        to.ready(compute);
        from.ready(compute);
        const auto step = [&] {
            cuda::launch(compute, scale, dim3((most + 127) / 128), dim3(128), 0, rows.device, factors.device, width,
                counts.device, result.device);
        };
        if (recorded) {
            if (k < slots) steps.push_back(cuda::graph::record(compute, step));
            steps[k % slots].launch(compute);
        } else {
            step();
        }
        to.done(compute);
        from.done(compute);
        from.copy_out(leaving);

        under_way created{&from, result.host, std::vector<float>(count)};
        for (std::size_t i = 0; i < count; ++i) created.want[i] = by[i % width] * values[i];
        waiting.push_back(std::move(created));
    }
    while (!waiting.empty()) check();
}

} // namespace

TEST_CASE("simt.core.transfer: batches arrive and return, for any number in flight") {
    for (const std::size_t slots : {1U, 2U, 3U, 5U}) check_batches(slots, 23, false);
}

TEST_CASE("simt.core.transfer: a recorded step finds the arrays of every batch in its slot") {
    for (const std::size_t slots : {1U, 3U}) check_batches(slots, 17, true);
}

TEST_CASE("simt.core.transfer: a read without a wait sees no data yet") {
    memory_budget budget;
    cuda::stream compute, coming;
    cuda::transfer_slot slot(budget, "in", 4096);
    const std::vector<float> ones(8, 1.0F);
    std::vector<float> found(8);
    for (const bool waits : {false, true}) {
        slot.begin();
        const auto put = slot.put(std::span(ones));
        slot.copy_in(coming);
        if (waits) slot.ready(compute);
        cuda::copy_async(std::span(found), std::span<const float>(put.device, 8), compute);
        compute.synchronize();
        CHECK((found == ones) == waits);
        slot.done(compute);
    }
}

TEST_CASE("simt.core.transfer: a slot is not overwritten before the kernels that read it have passed") {
    memory_budget budget;
    cuda::stream compute, coming;
    cuda::transfer_slot slot(budget, "in", 4096);
    std::vector<float> found(8);
    const auto put = slot.put(std::span<const float>(std::vector<float>(8, 1.0F)));
    slot.copy_in(coming);
    slot.ready(compute);
    cuda::copy_async(std::span(found), std::span<const float>(put.device, 8), compute); // represents a late kernel
    slot.done(compute);
    slot.begin();
    static_cast<void>(slot.put(std::span<const float>(std::vector<float>(8, 2.0F))));
    slot.copy_in(coming);
    slot.wait();
    CHECK(found == std::vector<float>(8, 1.0F));
}

TEST_CASE("simt.core.transfer: a mini-batch is found on the device, at the offsets of its arrays in the block") {
    memory_budget budget;
    cuda::stream compute;
    mini_batch_arena arena;
    mini_batch batch = mini_batch::format(arena.reserve(mini_batch::header_bytes() + 4096), {});
    const std::span<std::uint32_t> ids = batch.add<std::uint32_t>("nodes", 100);
    std::iota(ids.begin(), ids.end(), 5U);
    std::ranges::fill(batch.add<float>("weights", 30), 0.25F);
    cuda::transfer_slot slot(budget, "in", 16384);
    static_cast<void>(slot.put(std::span<const float>(numbers(3, 1))));
    const mini_batch staged = mini_batch::attach(slot.put(batch.bytes()).host);
    slot.copy_in(compute);
    std::vector<std::uint32_t> nodes(100);
    std::vector<float> weights(30);
    cuda::copy_async(std::span(nodes),
        std::span<const std::uint32_t>(slot.device(staged.get<std::uint32_t>("nodes")), 100), compute);
    cuda::copy_async(
        std::span(weights), std::span<const float>(slot.device(staged.get<float>("weights")), 30), compute);
    compute.synchronize();
    CHECK(std::ranges::equal(nodes, batch.get<std::uint32_t>("nodes")));
    CHECK(std::ranges::equal(weights, batch.get<float>("weights")));
    slot.done(compute);
}

TEST_CASE("simt.core.transfer: small gaps between arrays are copied, large ones are skipped") {
    memory_budget budget;
    cuda::transfer_slot slot(budget, "in", 1 << 20);
    const auto first = slot.room<char>(100, 200);
    const auto second = slot.room<char>(10);
    CHECK(second.device - first.device == 256);
    CHECK(slot.copied_bytes() == 266);
    static_cast<void>(slot.room<char>(0, 100'000));
    static_cast<void>(slot.room<char>(5));
    CHECK(slot.copied_bytes() == 271);
    CHECK(slot.used() == 512 + 100'096 + 256);
    slot.begin();
    CHECK(slot.copied_bytes() == 0);
    CHECK(slot.room<char>(1).device == first.device);
}

#if defined(GNEISS_SIMT)
TEST_CASE(
    "simt.core.transfer: data that does not fit is reported with its size, and allocations happen only at the start") {
    memory_budget budget;
    const std::size_t before = simt::the_device().used();
    cuda::transfer_slot slot(budget, "in", 1000);
    CHECK(budget.used(memory_kind::pinned) == 1024);
    CHECK(budget.used(memory_kind::device) == 1024);
    CHECK(simt::the_device().used() == before + 1024);
    static_cast<void>(slot.room<float>(64));
    CHECK_THROWS_AS(static_cast<void>(slot.room<float>(193)), over_budget);
    CHECK_THROWS_AS(static_cast<void>(slot.room<double>(~std::size_t{0} / 4)), over_budget);
    CHECK(slot.used() == 256);
    try {
        static_cast<void>(slot.room<float>(11, 10));
        FAIL("more than its capacity");
    } catch (const error& e) {
        CHECK(e.code() == errc::out_of_range);
    }
    CHECK(slot.room<float>(192).size() == 192);
    CHECK(simt::the_device().used() == before + 1024);
    memory_budget small(memory_budget::unlimited, 2048, 1024);
    CHECK_THROWS_AS(cuda::transfer_slot(small, "in", 2048), over_budget);
}
#endif

} // namespace test_simt_core_transfer
