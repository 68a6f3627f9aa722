// Plants errors in kernels that the emulator must name; some with a correct variant.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gneiss/cuda/launch.cuh>

#include <simt/support.hpp>

namespace test_simt_faults {

namespace {

using gneiss::cuda::launch;

/// Returns the emulator's reports of one launch, for the seeds that matter.
template <class... Parameters, class... Arguments>
std::string fault_of(
    void (*kernel)(Parameters...), unsigned threads, std::size_t shared_bytes, Arguments... arguments) {
    std::string said;
    simt::for_each_seed(6, [&] {
        std::string now = "nothing";
        try {
            launch(nullptr, kernel, dim3(1), dim3(threads), shared_bytes, arguments...);
        } catch (const simt::fault& fault) {
            now = fault.what();
        }
        said += now + "\n";
    });
    return said;
}
/// True if all lines of `said` have all of `parts`.
bool each_says(const std::string& said, std::initializer_list<const char*> parts) {
    for (std::size_t from = 0, to = 0; (to = said.find('\n', from)) != said.npos; from = to + 1)
        for (const char* part : parts)
            if (said.substr(from, to - from).find(part) == said.npos) return false;
    return !said.empty();
}

__global__ void barrier_in_one_branch(int* out) {
    if (threadIdx.x < 32) // NOLINT(bugprone-branch-clone): the fault
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}
__global__ void barrier_after_return(int* out) {
    if (threadIdx.x == 40) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}
__global__ void barrier_in_some_turns(int* out) {
    for (unsigned i = 0; i < 1 + threadIdx.x / 32; ++i) __syncthreads();
    out[threadIdx.x] = 1;
}

__global__ void mask_without_self(unsigned* out) { out[threadIdx.x] = __ballot_sync(0x0000ffffU, 1); }
__global__ void mask_of_no_lane(unsigned* out) { out[threadIdx.x] = __ballot_sync(0xffffffffU, 1); }
__global__ void operations_differ(int* out) {
    out[threadIdx.x] = threadIdx.x == 3 ? static_cast<int>(__ballot_sync(0xffffffffU, 1)) : __any_sync(0xffffffffU, 1);
}
__global__ void lane_missing(unsigned* out) {
    if (threadIdx.x != 9) out[threadIdx.x] = __ballot_sync(0xffffffffU, 1);
    __syncthreads();
}
__global__ void lane_exited(unsigned* out) {
    if (threadIdx.x == 17) return;
    out[threadIdx.x] = __ballot_sync(0xffffffffU, 1);
}
__global__ void lane_exited_by_its_mask(unsigned* out) {
    if (threadIdx.x == 17) return;
    out[threadIdx.x] = __ballot_sync(0xfffdffffU, 1);
}
__global__ void reads_lane_outside(int* out) {
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xffU, static_cast<int>(threadIdx.x), 8);
}
__global__ void width_of_seven(int* out) { out[threadIdx.x] = __shfl_sync(0xffffffffU, 1, 0, 7); }

__global__ void spins(const unsigned* flag, unsigned* out) {
    while (atomicAdd(out, 0U) == *flag) {
    }
}
__global__ void waits_for_its_warp(unsigned* flag) { // a lock that lanes of one warp pass on
    if (threadIdx.x == 31) atomicExch(flag, 1U);
    while (atomicAdd(flag, 0U) == 0) {
    }
}

__global__ void misaligned(const float* in, float* out) {
    const float4 four = __ldg(reinterpret_cast<const float4*>(in + 1));
    out[threadIdx.x] = four.x;
}

/// Threads read what another writes, with or without a barrier between.
template <bool Barrier>
__global__ void neighbors(int* out) {
    int* tile = gneiss::cuda::dynamic_shared<int>();
    tile[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (Barrier) __syncthreads();
    out[threadIdx.x] = tile[(threadIdx.x + 33) % blockDim.x];
}
/// The same within a warp, where hardware's lockstep hides it.
template <bool Sync>
__global__ void lanes(int* out) {
    __shared__ int tile[32];
    tile[threadIdx.x] = static_cast<int>(threadIdx.x);
    if (Sync) __syncwarp();
    out[threadIdx.x] = tile[31 - threadIdx.x];
}

/// Blocks that write one place.
__global__ void blocks_collide(int* out) {
    if (threadIdx.x == 0) out[0] = static_cast<int>(blockIdx.x);
}

/// A sum that starts with uninitialized shared memory.
template <bool Dynamic>
__global__ void sum_from_nothing(float* out) {
    __shared__ float fixed[4];
    float* sum = Dynamic ? gneiss::cuda::dynamic_shared<float>() : fixed;
    if (threadIdx.x == 0) sum[1] += 1.0F;
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum[1];
}

/// Returns the results of `kernel` with different orders of its threads.
std::set<std::vector<int>> results(void (*kernel)(int*), unsigned threads, unsigned blocks = 1) {
    std::set<std::vector<int>> all;
    simt::for_each_seed(8, [&] {
        std::vector<int> out(threads, -2);
        launch(nullptr, kernel, dim3(blocks), dim3(threads), threads * sizeof(int), out.data());
        all.insert(out);
    });
    return all;
}

} // namespace

TEST_CASE("a barrier that some threads do not reach is named, with both places") {
    std::vector<int> out(64);
    CHECK(each_says(fault_of(barrier_in_one_branch, 64, 0, out.data()),
        {"divergent barrier: thread (", "__syncthreads at ", "faults.cpp:", ", but thread ("}));
    CHECK(each_says(fault_of(barrier_after_return, 64, 0, out.data()),
        {"divergent barrier", "thread (40,0,0) of block (0,0,0), lane 8, has exited"}));
    CHECK(each_says(fault_of(barrier_in_some_turns, 64, 0, out.data()), {"divergent barrier", "has exited"}));
}

TEST_CASE("wrong masks are named") {
    std::vector<unsigned> out(64);
    std::vector<int> numbers(64);
    CHECK(each_says(fault_of(mask_without_self, 32, 0, out.data()),
        {"mask: ", "__ballot_sync for lanes 0x0000ffff", "does not name its lane"}));
    CHECK(each_says(fault_of(mask_of_no_lane, 48, 0, out.data()), {"mask: ", "lanes that the block does not have"}));
    CHECK(each_says(fault_of(operations_differ, 32, 0, numbers.data()), {"mask: ", "__ballot_sync", "__any_sync"}));
    CHECK(each_says(
        fault_of(reads_lane_outside, 32, 0, numbers.data()), {"mask: ", "reads lane 8 in __shfl_sync", "faults.cpp:"}));
    CHECK(each_says(fault_of(width_of_seven, 32, 0, numbers.data()), {"width that is no power of two"}));
}

TEST_CASE("a lane that never arrives or has exited is named") {
    std::vector<unsigned> out(32);
    CHECK(each_says(fault_of(lane_missing, 32, 0, out.data()),
        {"deadlock: ", "__ballot_sync for lanes 0xffffffff",
            "thread (9,0,0) of block (0,0,0), lane 9, is in __syncthreads"}));
    CHECK(each_says(fault_of(lane_exited, 32, 0, out.data()), {"exited lane: ", "__ballot_sync"}));
    CHECK(each_says(fault_of(lane_exited_by_its_mask, 32, 0, out.data()), {"nothing"}));
}

TEST_CASE("a kernel that spins is ended; one that waits for its own warp continues") {
    const simt::settings before = simt::current_settings();
    simt::current_settings().patience = 10'000;
    unsigned zero = 0, flag = 0;
    CHECK(each_says(fault_of(spins, 32, 0, &zero, &flag), {"no progress: "}));
    CHECK(each_says(fault_of(waits_for_its_warp, 32, 0, &flag), {"nothing"}));
    simt::current_settings() = before;
}

TEST_CASE("a misaligned wide load is named") {
    alignas(16) float in[8] = {};
    float out[1];
    CHECK(each_says(fault_of(misaligned, 1, 0, &in[0], &out[0]), {"misaligned: ", "16 bytes", "faults.cpp:"}));
}

TEST_CASE("a missing barrier makes the result depend on the order of threads" * doctest::skip(simt::under_tsan)) {
    CHECK(results(neighbors<true>, 64).size() == 1);
    CHECK(results(neighbors<false>, 64).size() > 1);
    CHECK(results(lanes<true>, 32).size() == 1);
    CHECK(results(lanes<false>, 32).size() > 1);
}

TEST_CASE(
    "blocks that write one place make the result depend on the order of blocks" * doctest::skip(simt::under_tsan)) {
    CHECK(results(blocks_collide, 32, 5).size() > 1);
}

TEST_CASE("unwritten shared memory is NaN in every block, static or dynamic") {
    std::vector<float> out(3, 0.0F);
    launch(nullptr, sum_from_nothing<true>, dim3(3), dim3(32), 16, out.data());
    for (const float sum : out) CHECK(std::isnan(sum));
    std::fill(out.begin(), out.end(), 0.0F);
    launch(nullptr, sum_from_nothing<false>, dim3(3), dim3(32), 16, out.data());
    for (const float sum : out) CHECK(std::isnan(sum));
}

TEST_CASE("launches that a GPU refuses are refused") {
    int out = 0;
    CHECK_THROWS_WITH_AS(launch(nullptr, barrier_after_return, dim3(1), dim3(1025), 0, &out),
        "launch: a block of 1025 threads", simt::fault);
    CHECK_THROWS_AS(launch(nullptr, barrier_after_return, dim3(1), dim3(32), 300 * 1024, &out), gneiss::error);
    CHECK_THROWS_AS(launch(nullptr, barrier_after_return, dim3(1, 70000), dim3(32), 0, &out), gneiss::error);
    launch(nullptr, barrier_after_return, dim3(0), dim3(64), 0, &out); // no blocks: no effect
    CHECK(out == 0);
    CHECK_THROWS_WITH_AS(__syncthreads(), "__syncthreads outside a kernel", simt::fault);
}

TEST_CASE("after a fault the next kernel runs normally") {
    std::vector<int> out(64);
    CHECK_THROWS_AS(launch(nullptr, barrier_after_return, dim3(1), dim3(64), 0, out.data()), simt::fault);
    CHECK(results(neighbors<true>, 64).size() == 1);
}

} // namespace test_simt_faults
