#include <gneiss/cuda/cache/belady.cuh>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>

#include "cache/traces.hpp"

#if defined(__CUDACC__)
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/stream_allocator.cuh>

#include <thrust/system/cuda/execution_policy.h>
#else
#include <thrust/execution_policy.h>
#include <thrust/system/tbb/execution_policy.h>
#endif

// Compares the change sets of Thrust with those of the CPU: on a GPU or, from the same source, on threads of the host.
namespace gneiss { // not `using` it: names that nvcc generates for Thrust's kernels start with ::cuda

namespace {

#if defined(__CUDACC__)
/// A stream and the memory of its algorithms.
struct processor {
    memory_budget budget{};
    cuda::stream in{};
    cuda::stream_allocator scratch{budget, "scratch", in};

    [[nodiscard]] auto policy() { return thrust::cuda::par_nosync(scratch).on(in.get()); }
};
#else
struct processor {
    [[nodiscard]] static auto policy() { return thrust::tbb::par; }
};
#endif

/// Checks for the same change sets, fills and remaining rows, batch by batch.
template <class Policy>
void check_equal(const Policy& serial, const memory_trace& trace, const belady_options& options) {
    std::vector<change_set> want;
    belady_outcome outcome = gneiss::belady(
        trace, options, serial_executor{}, [&](std::size_t, const change_set& changes) { want.push_back(changes); });
    memory_budget budget;
    std::size_t batches = 0, wrong = 0;
    belady_outcome result =
        cuda::belady(serial, trace, options, budget, [&](std::size_t batch, const change_set& changes) {
            wrong += batch != batches || changes != want[batch];
            ++batches;
        });
    CHECK(batches == want.size());
    CHECK(wrong == 0);
    CHECK(result.fill == outcome.fill);
    std::ranges::sort(result.resident);
    std::ranges::sort(outcome.resident);
    CHECK(result.resident == outcome.resident);
    CHECK(budget.used(memory_kind::device) == 0);
}

/// Returns rows that are carried over, in random order: some of the trace, some of no batch.
std::vector<node_id> some_resident(std::uint64_t nodes, std::size_t slots, std::uint64_t seed) {
    std::vector<node_id> rows;
    for (node_id id = 0; id < nodes; ++id)
        if (rows.size() < slots && mix64(seed * nodes + id) % 4 == 0) rows.push_back(id);
    shuffle(rows, random_key(seed, random_domain::user));
    return rows;
}

/// Tests random traces: few rows and many, small and large batches, caches that hold no, some and all rows.
template <class Policy>
void check_random_traces(const Policy& serial, std::uint64_t traces) {
    for (std::uint64_t seed = 0; seed < traces; ++seed) {
        CAPTURE(seed);
        const std::uint64_t nodes = seed % 3 == 0 ? 9 : seed % 3 == 1 ? 60 : 500;
        const auto most = 1 + static_cast<std::size_t>(nodes) / (1 + seed % 6);
        const memory_trace trace = cache_test::random_trace(seed % 37, most, nodes, seed);
        const auto slots = static_cast<std::size_t>(mix64(seed) % (nodes + nodes / 4));
        const std::vector<node_id> resident =
            seed % 2 == 0 ? std::vector<node_id>() : some_resident(nodes + 5, slots, seed);
        check_equal(serial, trace, {slots, seed % 5 < 2 ? nodes + 5 : 0, resident});
    }
}

template <class Policy>
void check_edge_cases(const Policy& serial) {
    memory_trace none, empty, one, twice, same;
    empty.append({});
    empty.append({});
    one.append(std::vector<node_id>{5, 3, 9, 1});
    twice.append(std::vector<node_id>{1, 2, 1});
    for (int i = 0; i < 6; ++i) same.append(std::vector<node_id>{4, 0xfffffffe, 0, 7});
    const std::vector<node_id> resident{4, 2, 9};
    for (const std::size_t slots : {0U, 1U, 3U, 4U, 100U})
        for (const memory_trace* trace : {&none, &empty, &one, &same}) {
            check_equal(serial, *trace, {.capacity = slots});
            if (slots >= resident.size())
                check_equal(serial, *trace, {.capacity = slots, .nodes = 0, .resident = resident});
        }

    const auto code = [&](const memory_trace& trace, const belady_options& options,
                          std::uint64_t bytes = memory_budget::unlimited) {
        memory_budget budget(memory_budget::unlimited, memory_budget::unlimited, bytes);
        try {
            cuda::belady(serial, trace, options, budget, [](std::size_t, const change_set&) {});
        } catch (const error& e) {
            return e.code();
        }
        return errc::closed;
    };
    CHECK(code(one, {.capacity = 2, .nodes = 0, .resident = resident}) == errc::invalid_argument);
    CHECK(code(one, {.capacity = 2, .nodes = 9}) == errc::out_of_range);
    CHECK(code(one, {.capacity = 2, .nodes = 10}) == errc::closed);
    CHECK(code(twice, {.capacity = 2}) == errc::invalid_argument);
    CHECK(code(one, {.capacity = 2}, 64) == errc::over_budget);
}

} // namespace

TEST_CASE("simt.cache.belady: change sets of random traces equal those of the CPU, row by row") {
    processor serial;
    check_random_traces(serial.policy(), 240);
}

#if !defined(__CUDACC__)
TEST_CASE("simt.cache.belady: one thread gives the same") { check_random_traces(thrust::seq, 40); }
#endif

TEST_CASE("simt.cache.belady: batches large enough to be divided among threads give the same") {
    processor serial;
    const memory_trace trace = cache_test::random_trace(40, 9000, 6000, 3);
    for (const std::size_t slots : {0U, 200U, 1500U, 5000U, 7000U}) {
        check_equal(serial.policy(), trace, {.capacity = slots, .nodes = 6000});
        const std::vector<node_id> resident = some_resident(6500, slots, 9);
        check_equal(serial.policy(), trace, {slots, 0, resident});
    }
}

TEST_CASE("simt.cache.belady: more batches than are counted at a time give the same") {
    processor serial;
    const memory_trace trace = cache_test::random_trace(4500, 6, 40, 4); // 2^24 counts are of 3728 batches
    check_equal(serial.policy(), trace, {.capacity = 12});
}

TEST_CASE("simt.cache.belady: no batch and no row work, and invalid input is refused") {
    processor serial;
    check_edge_cases(serial.policy());
}

} // namespace gneiss
