// probe [COMMAND…]: prints the GPUs of this machine and becomes COMMAND; without a GPU prints the reason and exits with
// 77, which tests treat as "skipped".
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/device.cuh>

int main(int count, char** arguments) {
    try {
        for (const gneiss::cuda::device_info& one : gneiss::cuda::devices())
            std::printf("GPU %d: %s, compute capability %d.%d, %d multiprocessors, %s\n", one.index, one.name.c_str(),
                one.major, one.minor, one.multiprocessors, gneiss::format_bytes(one.memory).c_str());
    } catch (const std::exception& error) {
        std::printf("skipped: %s\n", error.what());
        return 77;
    }
    std::fflush(stdout);
    if (count < 2) return 0;
    const std::vector<char*> command(arguments + 1, arguments + count + 1); // with the terminating null
    execvp(command[0], command.data());
    std::perror(command[0]);
    return 1;
}
