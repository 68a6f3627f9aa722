#pragma once

// Shared by tests of kernels. Each of their files is compiled twice: for the kernels under the emulator and, by nvcc,
// for the kernels on a GPU (tests/gpu). On a GPU, too, kernels may access the heap and stack of a test, but not
// statics, and the null stream is done when a call returns. Features of the emulator (traffic, faults, poison) are
// under #if defined(GNEISS_SIMT).

#include <cstdint>
#include <utility>

#include <gneiss/cuda/device_api.cuh>

namespace simt {

/// Runs body() with seeds 0 … count − 1: threads in order, in reverse, then at random; under the thread sanitizer,
/// which finds races in any order, only with the last. A GPU has its own order and runs body() equally often.
template <class Body>
void for_each_seed(std::uint64_t count, Body body) {
#if defined(GNEISS_SIMT)
    const settings before = current_settings();
    for (std::uint64_t seed = under_tsan ? count - 1 : 0; seed < count; ++seed) {
        current_settings().seed = seed;
        body();
    }
    current_settings() = before;
#else
    for (std::uint64_t turn = 0; turn < count; ++turn) body();
#endif
}

} // namespace simt
