#include <gneiss/cuda/core/stream_allocator.cuh>

#include <doctest/doctest.h>

namespace test_simt_core_stream_allocator {

using namespace gneiss;

TEST_CASE("simt.core.stream_allocator: scratch is charged until it returns, and is refused with its name and sizes") {
    memory_budget budget(memory_budget::unlimited, memory_budget::unlimited, 5000);
    cuda::stream in;
    cuda::stream_allocator scratch(budget, "sorting", in);
    char* const first = scratch.allocate(1000);
    char* const second = scratch.allocate(3000);
    CHECK(first != second);
    CHECK(budget.used(memory_kind::device) == 4000);
    CHECK_THROWS_WITH_AS(static_cast<void>(scratch.allocate(1001)),
        doctest::Contains("of memory, the budget is 4.88 KiB: sorting 1000 B + sorting 2.92 KiB + sorting 1001 B"),
        over_budget);
    scratch.deallocate(first, 1000);
    CHECK(budget.used(memory_kind::device) == 3000);
    CHECK(scratch.allocate(0) == nullptr);
    scratch.deallocate(nullptr, 0);
    scratch.deallocate(second, 3000);
    CHECK(budget.used(memory_kind::device) == 0);
    in.synchronize();
}

#if defined(GNEISS_SIMT)
TEST_CASE("simt.core.stream_allocator: a device without room says how much is free, and keeps no charge") {
    memory_budget budget;
    cuda::stream in;
    cuda::stream_allocator scratch(budget, "sorting", in);
    simt::device& device = simt::the_device();
    const std::size_t before = device.memory;
    device.memory = device.used() + 1000;
    CHECK_THROWS_WITH_AS(static_cast<void>(scratch.allocate(2048)),
        doctest::Contains("sorting: 2.00 KiB of device memory, of which 1000 B"), cuda::device_error);
    CHECK(budget.used(memory_kind::device) == 0);
    device.memory = before;
}
#endif

} // namespace test_simt_core_stream_allocator
