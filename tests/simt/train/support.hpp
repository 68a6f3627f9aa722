#pragma once

#include <gneiss/core/error.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

// Shared by tests of trainers on the emulated device.
namespace simt_pipeline {

/// Returns the largest difference of parameters.
inline double difference(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    return most;
}

/// Checks that a run ends with a NaN loss and names its batch.
template <class Run>
void check_not_finite(Run run) {
    try {
        run();
        FAIL("the NaN loss was accepted");
    } catch (const gneiss::error& e) {
        CHECK(e.code() == gneiss::errc::not_finite);
        CHECK(std::string(e.what()).find("batch") != std::string::npos);
    }
}

} // namespace simt_pipeline
