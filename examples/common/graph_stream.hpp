#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string_view>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/io/dataset.hpp>

namespace programs {

/// The training edges of a dataset without their directions, in memory or streamed from lists on disk: the same lists in the
/// same order.
struct graph_stream {
    gneiss::any_adjacency graph;
    bool in_memory = false;
    std::uint64_t disk_bytes = 0; ///< of the lists
    gneiss::memory_charge charge{};
};

/// Opens the graph: in memory where the budget has room for it, else from DATASET/csc-in and csc-out, which are made within
/// what the budget has left where they are not there. Throws over_budget; errc::cancelled.
/// \param where  memory, disk, or auto: as said
[[nodiscard]] graph_stream open_graph(const gneiss::dataset& data, gneiss::memory_budget& budget,
    std::string_view where, const gneiss::tbb_executor& on, const std::stop_token& stop,
    const std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)>& progress);

} // namespace programs
