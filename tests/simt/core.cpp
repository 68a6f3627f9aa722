// Tests streams, events, graphs and memory of <gneiss/cuda/core> on the emulated runtime.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include <gneiss/cuda/core/arena.cuh>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/launch.cuh>

namespace test_simt_core {

namespace {

using namespace gneiss::cuda;
using gneiss::memory_budget;
using gneiss::memory_kind;

__global__ void add(int* values, const int* what, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) values[i] += *what;
}

__global__ void with_table(unsigned* out) { *out = dynamic_shared<unsigned>() != nullptr ? 1 : 0; }
/// A kernel with static shared memory, as far as the emulated device knows.
__global__ void with_more(unsigned* out) { *out = dynamic_shared<unsigned>() != nullptr ? 2 : 0; }

/// Properties of the emulated device, restored on destruction.
struct other_device {
    simt::device before = simt::the_device();
    other_device() = default;
    other_device(const other_device&) = delete;
    other_device& operator=(const other_device&) = delete;
    ~other_device() {
        simt::the_device().missing = before.missing;
        simt::the_device().driver = before.driver;
        simt::the_device().memory = before.memory;
        simt::the_device().shared_memory = before.shared_memory;
    }
};

} // namespace

TEST_CASE("a missing driver or GPU is one error that names the cause") {
    const other_device restored;
    for (const cudaError_t missing : {cudaErrorInsufficientDriver, cudaErrorNoDevice}) {
        simt::the_device().missing = missing;
        try {
            static_cast<void>(devices());
            FAIL("devices() found one");
        } catch (const device_error& error) {
            CHECK(error.code() == gneiss::errc::unsupported);
            CHECK(error.reason() == missing);
            CHECK(std::string(error.what()).starts_with("no GPU"));
        }
        CHECK_THROWS_AS(stream(), device_error);
        CHECK_THROWS_AS(event(), device_error);
    }
}

TEST_CASE("each cause of a device that cannot be used is one sentence") {
    const auto says = [](auto&& call, const std::string& what) {
        try {
            call();
            FAIL("no error");
        } catch (const device_error& error) {
            CHECK(error.code() == gneiss::errc::unsupported);
            CHECK(std::string(error.what()).find(what) == 0);
            CHECK(std::string(error.what()).find('\n') == std::string::npos);
        }
    };
    const auto list = [] { static_cast<void>(devices()); };
    const other_device restored;
    const device_info found = devices().front();
    simt::the_device().missing = cudaErrorInsufficientDriver;
    simt::the_device().driver = 0;
    says(list, "no GPU: no NVIDIA driver is installed: ");
    simt::the_device().driver = 11040;
    says(list, "no GPU: the NVIDIA driver is for CUDA 11.4, CUDA 13.0 is needed: ");
    simt::the_device().missing = cudaErrorNoDevice;
    says(list, "no GPU: ");
    simt::the_device().missing = cudaErrorNoKernelImageForDevice;
    says([&] { check_code(found, reinterpret_cast<const void*>(&add)); },
        "this program was built for other GPUs than emulator of compute capability ");
    simt::the_device().missing = cudaSuccess;
    check_code(found, reinterpret_cast<const void*>(&add));
}

TEST_CASE("devices are listed") {
    const auto all = devices();
    REQUIRE(all.size() == 1);
    CHECK(all[0].name == "emulator");
    CHECK(all[0].memory == simt::the_device().memory);
    use_device(0);
    CHECK_THROWS_AS(use_device(1), device_error);
}

TEST_CASE("a kernel opts in once, to the most dynamic shared memory that its static memory leaves") {
    const other_device restored;
    const auto opted = [](void (*kernel)(unsigned*)) {
        cudaFuncAttributes of{};
        REQUIRE(cudaFuncGetAttributes(&of, reinterpret_cast<const void*>(kernel)) == cudaSuccess);
        return static_cast<std::size_t>(of.maxDynamicSharedSizeBytes);
    };
    const auto runs = [](void (*kernel)(unsigned*), std::size_t bytes) {
        unsigned found = 0;
        launch(nullptr, kernel, dim3(1), dim3(1), bytes, &found);
        return found;
    };
    constexpr std::size_t kib = 1024, fixed = 4 * kib;
    simt::the_device().kernels[reinterpret_cast<const void*>(with_more)] = {fixed, static_cast<int>(48 * kib - fixed)};
    CHECK(runs(with_table, 48 * kib) == 1);
    CHECK(opted(with_table) == 48 * kib); // nothing to opt in to
    CHECK(runs(with_table, 60 * kib) == 1);
    CHECK(opted(with_table) == 227 * kib);
    CHECK(runs(with_table, 50 * kib) == 1); // does not lower it below what another thread is about to launch
    CHECK(opted(with_table) == 227 * kib);
    CHECK(runs(with_more, 44 * kib) == 2);
    CHECK(opted(with_more) == 44 * kib);
    CHECK(runs(with_more, 46 * kib) == 2); // 50 KiB in all
    CHECK(opted(with_more) == 227 * kib - fixed);
    CHECK_THROWS_WITH_AS(runs(with_more, 224 * kib),
        doctest::Contains("needs 229376 bytes of dynamic shared memory, this GPU has 228352 a block"), gneiss::error);
    simt::the_device().kernels.clear();
    simt::the_device().shared_memory = 99 * kib;
    CHECK(shared_memory_of_block() == 99 * kib);
    CHECK_THROWS_WITH_AS(runs(with_table, 100 * kib), doctest::Contains("101376 a block"), gneiss::error);
    CHECK(runs(with_table, 99 * kib) == 1);
    simt::the_device().kernels.clear();
}

TEST_CASE("a grid beyond the limits in y or z is refused with its size, before it starts") {
    unsigned found = 0;
    for (const dim3 grid : {dim3(1, 65536, 1), dim3(1, 1, 65536)})
        CHECK_THROWS_WITH_AS(
            launch(nullptr, with_table, grid, dim3(1), 0, &found), doctest::Contains("65536"), gneiss::error);
    CHECK(found == 0);
    stream in; // before anyone waits for the stream
    CHECK_THROWS_AS(launch(in, with_table, dim3(1, 65536), dim3(1), 0, &found), gneiss::error);
}

TEST_CASE("warps have their own numbers beyond 2^27") {
    for (const unsigned threads : {64U, 256U, 1024U}) {
        const unsigned blocks = (1U << 27) / (threads / 32) + 2;
        std::vector<std::uint32_t> warps(threads); // of each thread
        simt::block::current().run(uint3{blocks - 1, 0, 0}, dim3(blocks), dim3(threads), 0, 0,
            [&] { warps[threadIdx.x] = gneiss::cuda::detail::grid_warp(); });
        for (std::uint32_t t = 0; t < threads; ++t) CHECK(warps[t] == (blocks - 1) * (threads / 32) + t / 32);
    }
}

TEST_CASE("waiting for an event sleeps, and a failed call leaves no error to the next") {
    for (const bool timed : {false, true}) {
        const event made(timed);
        CHECK((made.get()->flags & cudaEventBlockingSync) != 0);
        CHECK(((made.get()->flags & cudaEventDisableTiming) == 0) == timed);
    }
    void* all = nullptr;
    CHECK_THROWS_AS(check(cudaMalloc(&all, simt::the_device().memory + 1), "a test"), device_error);
    CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("buffers are charged, allocated and released") {
    memory_budget budget(memory_budget::unlimited, 4096, 4096);
    const std::size_t before = simt::the_device().used();
    {
        device_buffer<float> first(budget, "first", 512);
        CHECK(first.bytes() == 2048);
        CHECK(budget.used(memory_kind::device) == 2048);
        CHECK(simt::the_device().used() == before + 2048);
        CHECK_THROWS_AS(device_buffer<float>(budget, "second", 513), gneiss::over_budget);
        CHECK(simt::the_device().used() == before + 2048);
        pinned_buffer<float> pinned(budget, "pinned", 1024);
        CHECK(budget.used(memory_kind::pinned) == 4096);
        device_buffer<float> moved = std::move(first);
        CHECK(first.data() == nullptr); // NOLINT(bugprone-use-after-move): the moved-from state is tested
        CHECK(moved.size() == 512);
        moved = device_buffer<float>();
        CHECK(budget.used(memory_kind::device) == 0);
    }
    CHECK(budget.used(memory_kind::pinned) == 0);
    CHECK(simt::the_device().used() == before);
    CHECK_THROWS_AS(device_buffer<double>(budget, "all", ~std::size_t{0} / 4), gneiss::error);
}

TEST_CASE("a full device reports its free memory, and the budget keeps no charge") {
    const other_device restored;
    simt::the_device().memory = simt::the_device().used() + 1000;
    memory_budget budget;
    try {
        device_buffer<char> one(budget, "embeddings", 2048);
        FAIL("it fitted");
    } catch (const device_error& error) {
        CHECK(error.code() == gneiss::errc::over_budget);
        CHECK(std::string(error.what()).find("embeddings: 2.00 KiB of device memory, of which 1000 B") == 0);
    }
    CHECK(budget.used(memory_kind::device) == 0);
}

TEST_CASE("copies arrive and return through a kernel") {
    memory_budget budget;
    stream in;
    std::vector<int> host(1000), back(1000);
    std::iota(host.begin(), host.end(), 0);
    device_buffer<int> values(budget, "values", host.size()), what(budget, "what", 1);
    const int five = 5;
    copy_async(values.span(), std::span<const int>(host), in);
    copy_async(what.span(), std::span(&five, 1), in);
    launch(in, add, dim3(4), dim3(256), 0, values.data(), what.data(), 1000U);
    copy_async(std::span(back), values.span(), in);
    CHECK_FALSE(in.idle());
    in.synchronize();
    CHECK(in.idle());
    for (int i = 0; i < 1000; ++i) CHECK(back[static_cast<std::size_t>(i)] == i + 5);
    fill_bytes_async(values.span(), 0, in);
    copy_async(std::span(back), values.span(), in);
    in.synchronize();
    CHECK(std::count(back.begin(), back.end(), 0) == 1000);
    CHECK_THROWS_AS(copy_async(what.span(), std::span<const int>(host), in), gneiss::error);
}

TEST_CASE("events order streams and report when they have passed") {
    memory_budget budget;
    stream first, second;
    event done(true), begun(true);
    CHECK(done.passed()); // never recorded
    std::vector<int> result(1, -1);
    device_buffer<int> value(budget, "value", 1);
    const int seven = 7;
    begun.record(first);
    copy_async(value.span(), std::span(&seven, 1), first);
    done.record(first);
    second.wait(done);
    copy_async(std::span(result), value.span(), second);
    second.synchronize();
    CHECK(result[0] == 7);
    CHECK(done.passed());
    CHECK(done.milliseconds_since(begun) >= 0.0F);
}

TEST_CASE("a recorded step uses the current contents of device memory") {
    memory_budget budget;
    stream in;
    device_buffer<int> value(budget, "value", 1), what(budget, "what", 1);
    int zero = 0, by = 1, found = -1;
    copy_async(value.span(), std::span(&zero, 1), in);
    in.synchronize();
    const graph step = graph::record(in, [&] {
        launch(in, add, dim3(1), dim3(32), 0, value.data(), what.data(), 1U);
        launch(in, add, dim3(1), dim3(32), 0, value.data(), what.data(), 1U);
    });
    CHECK(step.nodes() == 2);
    for (by = 1; by <= 3; ++by) {
        copy_async(what.span(), std::span(&by, 1), in);
        step.launch(in);
        in.synchronize();
    }
    copy_async(std::span(&found, 1), value.span(), in);
    in.synchronize();
    CHECK(found == 2 * (1 + 2 + 3));
}

TEST_CASE("a step that allocates cannot be recorded; the stream remains usable") {
    memory_budget budget;
    stream in;
    device_buffer<int> value(budget, "value", 1);
    CHECK_THROWS_AS(static_cast<void>(graph::record(in, [&] { device_buffer<int>(budget, "more", 1); })), device_error);
    fill_bytes_async(value.span(), 0, in);
    int found = -1;
    copy_async(std::span(&found, 1), value.span(), in);
    in.synchronize();
    CHECK(found == 0);
}

TEST_CASE("while one thread records, others allocate and wait; a recorded call counts when it is replayed") {
    memory_budget budget;
    stream in, other;
    device_buffer<int> value(budget, "value", 1), what(budget, "what", 1);
    fill_bytes_async(value.span(), 0, in);
    const device_calls before = calls_so_far();
    const graph step = graph::record(in, [&] {
        launch(in, add, dim3(1), dim3(32), 0, value.data(), what.data(), 1U);
        std::thread([&] {
            const device_buffer<int> more(budget, "more", 1);
            other.synchronize();
        }).join();
        launch(in, add, dim3(1), dim3(32), 0, value.data(), what.data(), 1U);
    });
    CHECK(step.nodes() == 2);
    CHECK((calls_so_far() - before).launches == 0);
    CHECK((calls_so_far() - before).allocations == 1);
    step.launch(in);
    in.synchronize();
    CHECK((calls_so_far() - before).launches == 1);
}

TEST_CASE("an arena returns disjoint aligned parts of its counted size, and no more") {
    const auto take = [](device_arena& from) {
        return std::tuple{
            from.take<float>(3), from.take<double>(0), from.take<char>(257), from.take<double>(32)}; // in this order
    };
    device_arena counting;
    const auto nothing = take(counting);
    CHECK(std::get<0>(nothing) == nullptr);
    CHECK(std::get<3>(nothing) == nullptr);
    CHECK(counting.used() == 256 + 512 + 256);

    memory_budget budget;
    device_buffer<std::byte> memory(budget, "memory", counting.used());
    device_arena arena(memory.span());
    const auto [a, b, c, d] = take(arena);
    CHECK(static_cast<void*>(a) == memory.data());
    CHECK(static_cast<void*>(c) == memory.data() + 256);
    CHECK(static_cast<void*>(d) == memory.data() + 768);
    CHECK(arena.used() == memory.size());
    CHECK_THROWS_AS(static_cast<void>(arena.take<char>(1)), gneiss::over_budget);
    CHECK_THROWS_AS(static_cast<void>(counting.take<double>(~std::size_t{0} / 8)), gneiss::error);
}

} // namespace test_simt_core
