#include <gneiss/cuda/core/recorder.cuh>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/launch.cuh>

#include <doctest/doctest.h>

namespace test_simt_core_recorder {

using namespace gneiss;
using cuda::device_call;

namespace {

struct padded {
    char small = 0;
    std::uint64_t large = 0;
};
__global__ void take(int* to, int value, padded more) {
    if (threadIdx.x == 0 && blockIdx.x == 0) *to = value + static_cast<int>(more.large);
}

std::vector<device_call> kinds(const std::vector<cuda::recorded_call>& calls) {
    std::vector<device_call> result;
    for (const cuda::recorded_call& one : calls) result.push_back(one.what);
    return result;
}

} // namespace

TEST_CASE("simt.core.recorder: launches, copies, fills, allocations and waits are kept with what they were given") {
    memory_budget budget;
    cuda::stream in;
    const cuda::device_calls before = cuda::calls_so_far();
    cuda::recorder calls;
    std::optional<cuda::device_buffer<int>> value(std::in_place, budget, "value", 3);
    cuda::fill_bytes_async(value->span(), 0, in);
    cuda::launch(in, take, dim3(2, 3, 4), dim3(32), 640, value->data(), 5, padded{'a', 7});
    int found = 0;
    cuda::copy_async(std::span(&found, 1), std::span<const int>(value->data(), 1), in);
    in.synchronize();
    CHECK(found == 12);
    const cuda::graph step = cuda::graph::record(
        in, [&] { cuda::launch(in, take, dim3(1), dim3(32), 0, value->data(), 5, padded{'a', 7}); });
    step.launch(in);
    int* const address = value->data();
    value.reset(); // freeing waits
    const std::vector<cuda::recorded_call> made = calls.take();
    REQUIRE(kinds(made) ==
        std::vector{device_call::allocation, device_call::fill, device_call::launch, device_call::copy,
            device_call::wait, device_call::launch, device_call::replay, device_call::wait});
    CHECK(made[0].bytes == 12);
    CHECK(made[1].bytes == 12);
    const cuda::recorded_call& launched = made[2];
    CHECK(launched.kernel == reinterpret_cast<const void*>(&take));
    CHECK(launched.grid == std::array{2U, 3U, 4U});
    CHECK(launched.block == std::array{32U, 1U, 1U});
    CHECK(launched.dynamic_bytes == 640);
    REQUIRE(launched.arguments.size() == sizeof(int*) + sizeof(int) + sizeof(padded));
    CHECK(std::memcmp(launched.arguments.data(), &address, sizeof(address)) == 0);
    CHECK(made[3].bytes == 4);
    const cuda::device_calls sum = cuda::calls_so_far() - before;
    CHECK(sum ==
        cuda::device_calls{
            .launches = 2, .copies = 1, .copied_bytes = 4, .allocations = 1, .waits = 2, .recordings = 1});
    CHECK(calls.take().empty());
}

TEST_CASE("simt.core.recorder: equal steps are equal, whatever their padding held; any other value makes them differ") {
    cuda::stream in;
    int value = 0;
    cuda::recorder calls;
    const auto step = [&](unsigned char garbage, unsigned blocks, std::size_t shared, int number, std::uint64_t large) {
        alignas(padded) unsigned char memory[sizeof(padded)];
        std::memset(memory, garbage, sizeof(padded));
        auto* const more = new (memory) padded;
        more->large = large;
        cuda::launch(in, take, dim3(blocks), dim3(32), shared, &value, number, *more);
        in.synchronize();
        return calls.take();
    };
    const auto want = step(0, 1, 0, 5, 7);
    CHECK(step(255, 1, 0, 5, 7) == want);
    CHECK(step(0, 2, 0, 5, 7) != want);
    CHECK(step(0, 1, 64, 5, 7) != want);
    CHECK(step(0, 1, 0, 6, 7) != want);
    CHECK(step(0, 1, 0, 5, 8) != want);
}

} // namespace test_simt_core_recorder
