// probe [--check | COMMAND…]: prints the GPUs of this machine and becomes COMMAND; without a GPU prints the reason and
// exits with 77, which tests treat as "skipped". --check: also prints driver and C library, and tries what the programs
// need: code for this GPU, shared memory of 150 KiB a block, a recorded step.
#include <gnu/libc-version.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/graph.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/launch.cuh>

namespace {

using namespace gneiss;

/// Adds the numbers 0 … words − 1, which pass through dynamic shared memory, to *out.
template <unsigned Threads>
__global__ void __launch_bounds__(Threads) add_through_shared(std::uint32_t words, unsigned long long* out) {
    auto* const table = cuda::dynamic_shared<std::uint32_t>();
    for (std::uint32_t i = threadIdx.x; i < words; i += Threads) table[words - 1 - i] = i;
    __syncthreads();
    unsigned long long sum = 0;
    for (std::uint32_t i = threadIdx.x; i < words; i += Threads) sum += table[i];
    atomicAdd(out, sum);
}

void check() {
    std::printf("driver: CUDA %s\nC library: glibc %s\n",
        cuda::detail::version_text(cuda::detail::driver_version()).c_str(), gnu_get_libc_version());
    const auto bytes = std::min<std::size_t>(cuda::shared_memory_of_block(), std::size_t{150} * 1024);
    const auto words = static_cast<std::uint32_t>(bytes / sizeof(std::uint32_t));
    memory_budget budget;
    cuda::stream in;
    cuda::device_buffer<unsigned long long> out(budget, "probe", 1);
    cuda::fill_bytes_async(out.span(), 0, in);
    try {
        cuda::launch(in, add_through_shared<256>, 1, 256, bytes, words, out.data());
    } catch (const cuda::device_error& e) {
        if (e.reason() != cudaErrorNoKernelImageForDevice) throw;
        throw error(errc::unsupported,
            std::string("these programs have no code for this GPU: they were built for ") + GNEISS_CUDA_ARCHITECTURES);
    }
    const cuda::graph step =
        cuda::graph::record(in, [&] { cuda::launch(in, add_through_shared<256>, 1, 256, bytes, words, out.data()); });
    step.launch(in);
    step.launch(in);
    unsigned long long found = 0;
    cuda::copy_async(std::span(&found, 1), std::span<const unsigned long long>(out.span()), in);
    in.synchronize();
    const unsigned long long wanted = 3ULL * words * (words - 1) / 2;
    if (found != wanted)
        throw error(errc::io,
            "a kernel of three runs, two of them recorded, gave " + std::to_string(found) + " instead of " +
                std::to_string(wanted));
    std::printf(
        "a kernel ran with %s of shared memory, and twice more as a recorded step\n", format_bytes(bytes).c_str());
}

} // namespace

int main(int count, char** arguments) {
    try {
        for (const cuda::device_info& one : cuda::devices())
            std::printf("GPU %d: %s, compute capability %d.%d, %d multiprocessors, %s\n", one.index, one.name.c_str(),
                one.major, one.minor, one.multiprocessors, format_bytes(one.memory).c_str());
    } catch (const std::exception& error) {
        std::printf("skipped: %s\n", error.what());
        return 77;
    }
    std::fflush(stdout);
    if (count < 2) return 0;
    if (std::strcmp(arguments[1], "--check") == 0) {
        try {
            check();
            return 0;
        } catch (const std::exception& error) {
            std::printf("error: %s\n", error.what());
            return 1;
        }
    }
    const std::vector<char*> command(arguments + 1, arguments + count + 1); // with the terminating null
    execvp(command[0], command.data());
    std::perror(command[0]);
    return 1;
}
