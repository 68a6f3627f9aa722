#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/stream.cuh>

// Compiled without nvcc; runs with a GPU or reports that there is none.
int main() {
    try {
        return gneiss::cuda::devices().empty() ? 1 : 0;
    } catch (const gneiss::cuda::device_error& error) {
        return error.code() == gneiss::errc::unsupported ? 0 : 1;
    }
}
