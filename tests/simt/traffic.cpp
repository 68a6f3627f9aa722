#include <doctest/doctest.h>

#include <tuple>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/cuda/launch.cuh>

#include <simt/support.hpp>

namespace test_simt_traffic {

namespace {

using gneiss::cuda::launch;

/// out[r] = in[ids[r]], rows of 64 floats: a warp per row with 16-byte lanes, or a thread per row.
__global__ void gather_by_warps(const float4* in, const unsigned* ids, float4* out, unsigned rows) {
    const unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / 16, lane = threadIdx.x % 16;
    if (row < rows) __stwb(out + row * 16 + lane, __ldg(in + ids[row] * 16 + lane));
}
__global__ void gather_by_threads(const float4* in, const unsigned* ids, float4* out, unsigned rows) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows)
        for (unsigned i = 0; i < 16; ++i) __stwb(out + row * 16 + i, __ldg(in + ids[row] * 16 + i));
}
__global__ void strided(const float* in, float* out, unsigned stride) {
    out[threadIdx.x] = __ldg(in + threadIdx.x * stride);
}

} // namespace

TEST_CASE("sectors of a request: consecutive floats touch four, strided ones one each") {
    std::vector<float> out(32);
    const float* in = nullptr;
    struct aligned_row {
        alignas(128) float values[1024];
    };
    const std::vector<aligned_row> memory(1);
    in = memory[0].values;
    for (const auto& [stride, sectors, lines] :
        {std::tuple{1U, 4.0, 1U}, {2U, 8.0, 2U}, {8U, 32.0, 8U}, {32U, 32.0, 32U}, {0U, 1.0, 1U}}) {
        simt::traffic_counter count;
        launch(nullptr, strided, dim3(1), dim3(32), 0, in, out.data(), stride);
        CHECK(count.loads().requests == 1);
        CHECK(count.loads().bytes == 128);
        CHECK(count.loads().lines == lines);
        CHECK(count.loads().sectors_per_request() == sectors);
        CHECK(count.stores().requests == 0);
    }
}

TEST_CASE("a gather by warps requests whole rows, one by threads a sector per lane, in any order") {
    constexpr unsigned rows = 256;
    std::vector<float4> in(std::size_t{1000} * 16), out(std::size_t{rows} * 16);
    std::vector<unsigned> ids(rows);
    gneiss::random_stream draw(gneiss::random_key{4, gneiss::random_domain::user});
    for (unsigned& id : ids) id = static_cast<unsigned>(draw.below(1000));
    simt::for_each_seed(3, [&] {
        simt::traffic_counter by_warps;
        launch(nullptr, gather_by_warps, dim3(rows * 16 / 128), dim3(128), 0, in.data(), ids.data(), out.data(), rows);
        CHECK(by_warps.loads().bytes == rows * 256);
        CHECK(by_warps.loads().requests == rows / 2); // two rows per warp
        CHECK(by_warps.loads().sectors_per_request() <= 18.0);
        CHECK(by_warps.stores().bytes == rows * 256);
    });
    simt::for_each_seed(3, [&] {
        simt::traffic_counter by_threads;
        launch(nullptr, gather_by_threads, dim3(rows / 128), dim3(128), 0, in.data(), ids.data(), out.data(), rows);
        CHECK(by_threads.loads().bytes == rows * 256);
        CHECK(by_threads.loads().requests == rows / 32 * 16);
        CHECK(by_threads.loads().sectors_per_request() > 28.0);
    });
}

} // namespace test_simt_traffic
