// Tests <gneiss/cuda/core> on a GPU; tests/simt/core.cpp has the same on the emulator, and faults that a GPU cannot
// produce.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/stream_allocator.cuh>
#include <gneiss/cuda/launch.cuh>

using namespace gneiss::cuda;
using gneiss::memory_budget;

static __global__ void __launch_bounds__(256) add(int* values, const int* what, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] += *what;
}
static __global__ void __launch_bounds__(1024) reverse(int* values) {
    int* tile = dynamic_shared<int>();
    for (unsigned i = threadIdx.x; i < 20000; i += blockDim.x) tile[i] = values[i];
    __syncthreads();
    for (unsigned i = threadIdx.x; i < 20000; i += blockDim.x) values[i] = tile[19999 - i];
}

TEST_CASE("copies arrive and return through a kernel, and shared memory may be large") {
    memory_budget budget;
    stream in;
    std::vector<int> host(20000), back(20000);
    std::iota(host.begin(), host.end(), 0);
    const int five = 5;
    device_buffer<int> values(budget, "values", host.size()), what(budget, "what", 1);
    copy_async(values.span(), std::span<const int>(host), in);
    copy_async(what.span(), std::span(&five, 1), in);
    launch(in, add, dim3(79), dim3(256), 0, values.data(), what.data(), 20000U);
    launch(in, reverse, dim3(1), dim3(1024), 80000, values.data());
    copy_async(std::span(back), values.span(), in);
    in.synchronize();
    for (int i = 0; i < 20000; ++i) CHECK(back[static_cast<std::size_t>(i)] == 19999 - i + 5);
}

TEST_CASE("a recorded step uses the current contents of device memory") {
    memory_budget budget;
    stream in;
    device_buffer<int> value(budget, "value", 1), what(budget, "what", 1);
    fill_bytes_async(value.span(), 0, in);
    in.synchronize();
    const graph step = graph::record(in, [&] {
        launch(in, add, dim3(1), dim3(32), 0, value.data(), what.data(), 1U);
        launch(in, add, dim3(1), dim3(32), 0, value.data(), what.data(), 1U);
    });
    CHECK(step.nodes() == 2);
    for (int by = 1; by <= 3; ++by) {
        copy_async(what.span(), std::span(&by, 1), in);
        step.launch(in);
        in.synchronize();
    }
    int found = -1;
    copy_async(std::span(&found, 1), value.span(), in);
    in.synchronize();
    CHECK(found == 12);
}

TEST_CASE("streams wait for events") {
    memory_budget budget;
    stream first, second;
    event begun(true), done(true);
    pinned_buffer<int> host(budget, "host", 10240);
    device_buffer<int> all(budget, "all", 10240);
    std::iota(host.span().begin(), host.span().end(), 0);
    begun.record(first);
    copy_async(all.span(), host.span(), first);
    done.record(first);
    second.wait(done);
    std::vector<int> back(10240);
    copy_async(std::span(back), all.span(), second);
    second.synchronize();
    CHECK(std::ranges::equal(back, host.span()));
    CHECK(done.passed());
    CHECK(done.milliseconds_since(begun) > 0.0F);
}

TEST_CASE("an allocation that does not fit is refused with numbers, and the next call works") {
    memory_budget budget;
    CHECK_THROWS_AS(device_buffer<char>(budget, "too much", std::size_t{1} << 45), device_error);
    CHECK(budget.used(gneiss::memory_kind::device) == 0);
    CHECK_THROWS_AS(launch(nullptr, add, dim3(1), dim3(2048), 0, nullptr, nullptr, 0U), device_error);
    stream in;
    stream_allocator scratch(budget, "scratch", in);
    char* const part = scratch.allocate(4096);
    fill_bytes_async(std::span(part, 4096), 0, in);
    scratch.deallocate(part, 4096);
    in.synchronize();
    CHECK(budget.used(gneiss::memory_kind::device) == 0);
}
