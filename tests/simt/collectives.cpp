#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gneiss/core/random.hpp>
#include <gneiss/cuda/launch.cuh>

#include <simt/support.hpp>

namespace test_simt_collectives {

namespace {

using gneiss::cuda::launch;

__global__ void shuffles(const int* in, int* out, int argument, int width) {
    const unsigned i = threadIdx.x;
    const auto by = static_cast<unsigned>(argument);
    out[i] = __shfl_sync(0xffffffffU, in[i], argument, width);
    out[32 + i] = __shfl_up_sync(0xffffffffU, in[i], by, width);
    out[64 + i] = __shfl_down_sync(0xffffffffU, in[i], by, width);
    out[96 + i] = __shfl_xor_sync(0xffffffffU, in[i], argument, width);
}

/// Votes, matches and reductions of the lanes of a mask; the others do not participate.
__global__ void votes(const unsigned* in, unsigned* out, unsigned mask) {
    const unsigned i = threadIdx.x;
    if ((mask >> i & 1U) == 0) return;
    int equal = -1;
    out[i] = __ballot_sync(mask, in[i] % 3 == 0);
    out[32 + i] = static_cast<unsigned>(__any_sync(mask, in[i] == 7));
    out[64 + i] = static_cast<unsigned>(__all_sync(mask, in[i] < 7));
    out[96 + i] = __match_any_sync(mask, in[i]);
    out[128 + i] = __match_all_sync(mask, in[i], &equal);
    out[160 + i] = static_cast<unsigned>(equal);
    out[192 + i] = __reduce_add_sync(mask, in[i]);
    out[224 + i] = __reduce_min_sync(mask, in[i]);
    out[256 + i] = static_cast<unsigned>(__reduce_max_sync(mask, 3 - static_cast<int>(in[i])));
    out[288 + i] = __reduce_xor_sync(mask, in[i]);
}

__global__ void counted(int* out) {
    const int odd = static_cast<int>(threadIdx.x % 2);
    const int count = __syncthreads_count(odd), any = __syncthreads_or(threadIdx.x == 5),
              all = __syncthreads_and(threadIdx.x < 100);
    if (threadIdx.x == 0) {
        out[0] = count;
        out[1] = any;
        out[2] = all;
    }
}

/// Passes values between a warp's lanes through shared memory, with __syncwarp between.
__global__ void round_trip(int* out) {
    __shared__ int slots[64];
    const unsigned i = threadIdx.x, first = i / 32 * 32;
    slots[i] = static_cast<int>(i);
    for (int turn = 0; turn < 32; ++turn) {
        __syncwarp();
        const int next = slots[first + (i + 1) % 32];
        __syncwarp();
        slots[i] = next;
    }
    __syncwarp();
    out[i] = slots[first + (i + 31) % 32];
}

/// Two halves of a warp, each independently.
__global__ void halves(int* out) {
    const unsigned i = threadIdx.x;
    const unsigned mask = i < 16 ? 0xffffU : 0xffff0000U;
    int value = static_cast<int>(i);
    for (int step = 8; step > 0; step /= 2) value += __shfl_xor_sync(mask, value, step);
    out[i] = value;
}

__global__ void atomics(unsigned* out, float* sum, unsigned long long* wide, const unsigned* in, unsigned count) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    atomicAdd(out + 0, in[i]);
    atomicMin(out + 1, in[i]);
    atomicMax(out + 2, in[i]);
    atomicOr(out + 3, in[i]);
    atomicAnd(out + 4, in[i]);
    atomicXor(out + 5, in[i]);
    atomicInc(out + 6, 99);
    out[8 + atomicAdd(out + 7, 1U)] = in[i]; // each its own place
    atomicAdd(sum, 1.0F);
    atomicAdd(wide, 1ULL << 33);
    unsigned long long seen = atomicCAS(wide + 1, 0ULL, 0ULL); // a maximum by compare-and-swap
    while (seen < in[i]) {
        const unsigned long long found = atomicCAS(wide + 1, seen, in[i]);
        if (found == seen) break;
        seen = found;
    }
    if (i == 0) atomicExch(wide + 2, 5ULL);
}

/// The last block to finish sums the results of all: its threads see writes of others before their fence.
__global__ void last_block_sums(const int* in, int* partial, int* out, unsigned* done) {
    __shared__ bool last;
    const int value = in[blockIdx.x * 32 + threadIdx.x];
    const int sum = __reduce_add_sync(0xffffffffU, value);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(done, 1U) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    int total = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += 32) total += partial[i];
    total = __reduce_add_sync(0xffffffffU, total);
    if (threadIdx.x == 0) *out = total;
}

/// A three-dimensional block in which each thread writes its position.
__global__ void places(unsigned* out) {
    const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block << 16 | thread;
}

/// Reference implementation of PTX's shfl.sync, lane by lane.
int expected(const std::vector<int>& in, int kind, int lane, int argument, int width) {
    const int first = lane / width * width, last = first + width - 1, b = argument % 32;
    int from = lane;
    if (kind == 0) from = first + b % width;
    if (kind == 1 && lane - b >= first) from = lane - b;
    if (kind == 2 && lane + b <= last) from = lane + b;
    if (kind == 3 && (lane ^ b) <= last) from = lane ^ b;
    return in[static_cast<std::size_t>(from)];
}

} // namespace

TEST_CASE("shuffles read the lane that PTX specifies, for every argument and width") {
    std::vector<int> in(32), out(128);
    std::iota(in.begin(), in.end(), 100);
    simt::for_each_seed(3, [&] {
        for (const int width : {1, 2, 8, 16, 32})
            for (const int argument : {0, 1, 3, 7, 16, 31}) {
                launch(nullptr, shuffles, dim3(1), dim3(32), 0, in.data(), out.data(), argument, width);
                for (int kind = 0; kind < 4; ++kind)
                    for (int lane = 0; lane < 32; ++lane)
                        CHECK(out[static_cast<std::size_t>(32 * kind + lane)] ==
                            expected(in, kind, lane, argument, width));
            }
    });
}

TEST_CASE("votes, matches and reductions cover the lanes in the mask") {
    simt::for_each_seed(4, [turn = std::uint64_t{0}]() mutable {
        gneiss::random_stream draw(gneiss::random_key{turn++, gneiss::random_domain::user});
        for (int round = 0; round < 20; ++round) {
            std::vector<unsigned> in(32), out(320, 77);
            for (unsigned& one : in) one = static_cast<unsigned>(draw.below(8));
            const unsigned mask = round == 0 ? 0xffffffffU : static_cast<unsigned>(draw()) | 1U;
            if (round % 3 == 0) std::fill(in.begin(), in.end(), 5U);
            launch(nullptr, votes, dim3(1), dim3(32), 0, in.data(), out.data(), mask);
            unsigned ballot = 0, sum = 0, least = ~0U, mixed = 0;
            int most = -100;
            bool any = false, all = true, alike = true;
            for (unsigned i = 0; i < 32; ++i) {
                if ((mask >> i & 1U) == 0) continue;
                ballot |= static_cast<unsigned>(in[i] % 3 == 0) << i;
                any = any || in[i] == 7;
                all = all && in[i] < 7;
                alike = alike && in[i] == in[static_cast<unsigned>(std::countr_zero(mask))];
                sum += in[i];
                least = std::min(least, in[i]);
                most = std::max(most, 3 - static_cast<int>(in[i]));
                mixed ^= in[i];
            }
            for (unsigned i = 0; i < 32; ++i) {
                if ((mask >> i & 1U) == 0) {
                    CHECK(out[i] == 77);
                    continue;
                }
                unsigned match = 0;
                for (unsigned j = 0; j < 32; ++j)
                    match |= static_cast<unsigned>((mask >> j & 1U) != 0 && in[j] == in[i]) << j;
                const unsigned want[] = {
                    ballot, any, all, match, alike ? mask : 0, alike, sum, least, static_cast<unsigned>(most), mixed};
                for (unsigned kind = 0; kind < 10; ++kind) CHECK(out[32 * kind + i] == want[kind]);
            }
        }
    });
}

TEST_CASE("a barrier counts predicates of the whole block") {
    simt::for_each_seed(4, [] {
        std::vector<int> out(3, -1);
        launch(nullptr, counted, dim3(1), dim3(96), 0, out.data());
        CHECK(out == std::vector<int>{48, 1, 1});
    });
}

TEST_CASE("__syncwarp orders shared memory within a warp") {
    simt::for_each_seed(4, [] {
        std::vector<int> out(64, -1);
        launch(nullptr, round_trip, dim3(1), dim3(64), 0, out.data());
        for (unsigned i = 0; i < 64; ++i) CHECK(out[i] == static_cast<int>(i / 32 * 32 + (i + 31) % 32));
    });
}

TEST_CASE("halves of a warp do not wait for each other") {
    simt::for_each_seed(4, [] {
        std::vector<int> out(32);
        launch(nullptr, halves, dim3(1), dim3(32), 0, out.data());
        for (unsigned i = 0; i < 32; ++i) CHECK(out[i] == (i < 16 ? 120 : 376));
    });
}

TEST_CASE("atomics give the same as sequential threads") {
    simt::for_each_seed(4, [] {
        constexpr unsigned count = 150;
        std::vector<unsigned> in(count), out(8 + count);
        gneiss::random_stream draw(gneiss::random_key{9, gneiss::random_domain::user});
        for (unsigned& one : in) one = static_cast<unsigned>(draw());
        out[1] = out[4] = ~0U;
        float sum = 0;
        std::vector<unsigned long long> wide(3);
        launch(nullptr, atomics, dim3(3), dim3(64), 0, out.data(), &sum, wide.data(), in.data(), count);
        unsigned total = 0, any = 0, all = ~0U, mixed = 0;
        for (const unsigned one : in) total += one, any |= one, all &= one, mixed ^= one;
        CHECK(out[0] == total);
        CHECK(out[1] == *std::min_element(in.begin(), in.end()));
        CHECK(out[2] == *std::max_element(in.begin(), in.end()));
        CHECK(out[3] == any);
        CHECK(out[4] == all);
        CHECK(out[5] == mixed);
        CHECK(out[6] == count % 100);
        CHECK(out[7] == count);
        std::sort(in.begin(), in.end());
        std::sort(out.begin() + 8, out.end());
        CHECK(std::equal(in.begin(), in.end(), out.begin() + 8));
        CHECK(sum == count);
        CHECK(wide[0] == std::uint64_t{count} << 33);
        CHECK(wide[1] == in.back());
        CHECK(wide[2] == 5);
    });
}

TEST_CASE("the last block sees the writes of all blocks") {
    simt::for_each_seed(4, [] {
        std::vector<int> in(320), partial(10);
        std::iota(in.begin(), in.end(), 0);
        int out = -1;
        unsigned done = 0;
        launch(nullptr, last_block_sums, dim3(10), dim3(32), 0, in.data(), partial.data(), &out, &done);
        CHECK(out == 319 * 320 / 2);
    });
}

TEST_CASE("every thread of a three-dimensional grid runs once, at its position") {
    simt::for_each_seed(4, [] {
        std::vector<unsigned> out(std::size_t{2} * 3 * 2 * 5 * 3 * 2, 0);
        launch(nullptr, places, dim3(2, 3, 2), dim3(5, 3, 2), 0, out.data());
        for (unsigned i = 0; i < out.size(); ++i) CHECK(out[i] == ((i / 30) << 16 | i % 30));
    });
}

} // namespace test_simt_collectives
