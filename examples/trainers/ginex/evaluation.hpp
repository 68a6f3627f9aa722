#pragma once

#include <filesystem>
#include <stop_token>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/any_engine.hpp>
#include <gneiss/storage/concepts.hpp>

#include "network.hpp"

namespace ginex {

/// What a trained network is applied to.
struct evaluation_source {
    const options& how;
    network& net;
    const gneiss::dataset& data;
    const gneiss::node_features& features;
    gneiss::engine_factory engines;
    std::filesystem::path scratch; ///< directory for rows that memory does not hold
    const gneiss::tbb_executor& on;
    std::uint64_t memory;          ///< bytes for the work and its result
    std::stop_token stop;
};

/// Visits the scores [nodes, classes] of all nodes, ascending, some at a time: by all neighbours in the whole graph, layer by
/// layer out of core. Throws over_budget, errc::cancelled, errc::corrupt, io_error.
void for_each_block(const evaluation_source& from, const gneiss::row_block_visitor& visit);

} // namespace ginex
