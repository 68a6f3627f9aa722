// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/graph/symmetric.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/io/file_system.hpp>

namespace programs {

/// The training edges of a dataset as an undirected graph, in memory or streamed from adjacency files on disk: the same
/// lists in the same order.
struct graph_stream {
    std::unique_ptr<const gneiss::scratch_directory> own; ///< directory of adjacency files that are not the dataset's
    gneiss::any_adjacency graph;
    bool in_memory = false;
    std::uint64_t disk_bytes = 0; ///< size of the adjacency files
    gneiss::memory_charge charge{};
};

/// Reads the graph into memory: for each node the outgoing neighbors in order, then the incoming ones, without loops.
/// Reads the buckets three times; holds one bucket plus 8 bytes per node and 8 per edge. Throws errc::canceled.
[[nodiscard]] gneiss::symmetric_csr read_graph(const gneiss::bucket_store& buckets, const std::stop_token& stop,
    const std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)>& progress = {});

/// Opens the graph: in memory if the budget allows, else from DATASET/csc-in and csc-out, which are built within the
/// remaining budget if missing; of a dataset that cannot be written, in a directory in `scratch`, which is removed with
/// the graph. Throws over_budget; errc::canceled.
/// \param where  memory, disk, or auto: memory if the budget allows
[[nodiscard]] graph_stream open_graph(const gneiss::dataset& data, gneiss::memory_budget& budget,
    std::string_view where, const std::filesystem::path& scratch, const gneiss::tbb_executor& executor,
    const std::stop_token& stop,
    const std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)>& progress);

} // namespace programs
