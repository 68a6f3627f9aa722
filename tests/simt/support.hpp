#pragma once

// What tests of kernels share.

#include <cstdint>
#include <utility>

#include <simt/emulator.hpp>

namespace simt {

/// Runs body() with seeds 0 … count − 1: threads in order, in reverse, then at random.
template <class Body>
void for_each_seed(std::uint64_t count, Body body) {
    const settings before = current_settings();
    for (std::uint64_t seed = 0; seed < count; ++seed) {
        current_settings().seed = seed;
        body();
    }
    current_settings() = before;
}

} // namespace simt
