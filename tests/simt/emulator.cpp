#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include <gneiss/cuda/launch.cuh>

#include <simt/support.hpp>

namespace test_simt_emulator {

namespace {

__global__ void scale(const float* in, float* out, unsigned count, float factor) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = in[i] * factor;
}

/// out[b] = Σ of the block's values: warps by shuffles, then one warp over shared memory.
template <class T>
__global__ void block_sum(const T* in, T* out, unsigned count) {
    __shared__ T partial[32];
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    T value = i < count ? in[i] : T{};
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffU, value, static_cast<unsigned>(offset));
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    if (warp == 0) {
        value = lane < blockDim.x / 32 ? partial[lane] : T{};
        for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffU, value, offset);
        if (lane == 0) out[blockIdx.x] = value;
    }
}

/// out[i] = in of the opposite thread, through dynamic shared memory.
__global__ void reverse(const int* in, int* out) {
    int* tile = gneiss::cuda::dynamic_shared<int>();
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

} // namespace

TEST_CASE("a kernel computes the same as a loop, whatever the order of threads") {
    simt::for_each_seed(4, [] {
        std::vector<float> in(1000), out(1000, -1.0F);
        std::iota(in.begin(), in.end(), 0.0F);
        gneiss::cuda::launch(nullptr, scale, dim3(4), dim3(256), 0, in.data(), out.data(), 1000U, 3);
        for (unsigned i = 0; i < 1000; ++i) CHECK(out[i] == 3.0F * static_cast<float>(i));
    });
}

TEST_CASE("sums through shuffles and shared memory are right") {
    simt::for_each_seed(4, [] {
        std::vector<double> in(700), out(3);
        std::iota(in.begin(), in.end(), 1.0);
        gneiss::cuda::launch(nullptr, block_sum<double>, dim3(3), dim3(256), 0, in.data(), out.data(), 700U);
        CHECK(out[0] + out[1] + out[2] == 700.0 * 701.0 / 2.0);
    });
}

TEST_CASE("dynamic shared memory has the size of the launch") {
    simt::for_each_seed(4, [] {
        std::vector<int> in(96), out(96);
        std::iota(in.begin(), in.end(), 0);
        gneiss::cuda::launch(nullptr, reverse, dim3(1), dim3(96), 96 * sizeof(int), in.data(), out.data());
        for (int i = 0; i < 96; ++i) CHECK(out[static_cast<std::size_t>(i)] == 95 - i);
    });
}

} // namespace test_simt_emulator
