// Kernels whose threads race; the thread sanitizer must locate the race. Each is a test of its name.
#include <map>
#include <string_view>
#include <vector>

#include <gneiss/cuda/launch.cuh>

namespace {

__global__ void no_barrier(int* out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
/// The next turn writes what others still read.
__global__ void one_barrier_for_two(int* out) {
    int* tile = gneiss::cuda::dynamic_shared<int>();
    for (int turn = 0; turn < 2; ++turn) {
        tile[threadIdx.x] = turn;
        __syncthreads();
        out[threadIdx.x] = tile[63 - threadIdx.x];
    }
}
__global__ void no_syncwarp(int* out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = tile[threadIdx.x ^ 1U];
}
/// Votes bring lanes together, but do not order memory.
__global__ void vote_for_a_barrier(int* out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = static_cast<int>(threadIdx.x);
    __any_sync(0xffffffffU, 1);
    out[threadIdx.x] = tile[threadIdx.x ^ 1U];
}
__global__ void syncwarp_for_a_barrier(int* out) {
    __shared__ int tile[64];
    tile[threadIdx.x] = static_cast<int>(threadIdx.x);
    __syncwarp();
    out[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void adds_without_atomics(int* out) { ++out[0]; }
/// The flag is atomic, but does not order the data. It is far from the data: the sanitizer remembers a few accesses per
/// eight bytes, and turns of the loop would evict the one that races.
__global__ void no_fence(int* out) {
    auto* flag = reinterpret_cast<unsigned*>(out + 32);
    if (threadIdx.x == 0) {
        out[0] = 7;
        atomicExch(flag, 1U);
    } else if (threadIdx.x == 32) {
        while (atomicAdd(flag, 0U) == 0) {
        }
        out[2] = out[0];
    }
}

} // namespace

int main(int count, char** arguments) {
    using kernel = void (*)(int*);
    const std::map<std::string_view, kernel> kernels{{"no_barrier", no_barrier},
        {"one_barrier_for_two", one_barrier_for_two}, {"no_syncwarp", no_syncwarp},
        {"vote_for_a_barrier", vote_for_a_barrier}, {"syncwarp_for_a_barrier", syncwarp_for_a_barrier},
        {"adds_without_atomics", adds_without_atomics}, {"no_fence", no_fence}};
    const std::string_view plant = count > 1 ? arguments[1] : "";
    std::vector<int> out(64);
    gneiss::cuda::launch(nullptr, kernels.at(plant), dim3(1), dim3(64), 64 * sizeof(int), out.data());
    return 0;
}
