// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <gneiss/sample/fanout.hpp>

namespace gneiss {

/// Options of neighbor samplers.
struct neighbor_options {
    std::vector<hop_fanout> fanout{{.in = 10}, {.in = 10}}; ///< the hop of the seeds first
    bool replace = false;   ///< draw with replacement: the fan-out may exceed the degree
    bool relations = false; ///< write the relation of each sampled edge
    bool edge_ids = false;  ///< write the id of each sampled edge

    friend bool operator==(const neighbor_options&, const neighbor_options&) = default;
};

/// Uniform draws. A weighted sampler passes a function of the edge id instead.
struct equal_weights {};

} // namespace gneiss
