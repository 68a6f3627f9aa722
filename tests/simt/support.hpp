#pragma once

// What tests of kernels share. Each of their files is a test twice over: of the kernels under the emulator, and, compiled
// by nvcc, of the kernels on a GPU (tests/gpu). There, too, kernels may be handed anything that lies on the
// test's heap or stack, but no statics, and the null stream is done when a call returns. What only the emulator can do
// (traffic, faults, poison) stands under #if defined(GNEISS_SIMT).

#include <cstdint>
#include <utility>

#include <gneiss/cuda/device_api.cuh>

namespace simt {

/// Runs body() with seeds 0 … count − 1: threads in order, in reverse, then at random; under the thread sanitizer, which
/// finds races in any order, with the last alone. A GPU has an order of its own, and runs body() as often.
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
