#include <gneiss/cuda/core/pool_allocator.cuh>

#include <doctest/doctest.h>

namespace test_simt_core_pool_allocator {

using namespace gneiss;

TEST_CASE("simt.core.pool_allocator: scratch comes from the pool and returns to it") {
    memory_budget budget;
    cuda::device_pool pool(budget, "scratch", 4096);
    cuda::pool_allocator scratch(pool);
    char* const first = scratch.allocate(1000);
    char* const second = scratch.allocate(3000);
    CHECK(second - first == 1024);
    CHECK(pool.in_use() == 4096);
    CHECK_THROWS_AS(static_cast<void>(scratch.allocate(1)), over_budget);
    scratch.deallocate(first, 1000);
    CHECK(pool.in_use() == 3072);
    CHECK(scratch.allocate(900) == first);
    scratch.deallocate(second, 3000);
    scratch.deallocate(first, 900);
    CHECK(scratch.allocate(0) == nullptr);
    CHECK(pool.in_use() == 0);
}

} // namespace test_simt_core_pool_allocator
