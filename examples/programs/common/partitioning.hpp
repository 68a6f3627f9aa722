#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/partition/quality.hpp>

#include "common/partitioners.hpp"
#include "common/phase_progress.hpp"

/// What is done with the whole graph of a dataset before training: parts of its nodes, hubs.
namespace programs {

/// What such work is done with.
struct graph_work {
    gneiss::memory_budget& budget; ///< everything is charged to it before it is taken
    const gneiss::tbb_executor& on;
    phase_progress& progress;
    std::stop_token stop{};
    std::string graph = "auto"; ///< where the graph is: memory; disk; auto, memory if it fits (graph_stream.hpp)
};

/// Which parts are asked for.
struct partition_job {
    const partition_method& method;
    std::uint32_t parts = 0;
    std::uint64_t seed = 0;
    partitioner_flags flags{};
    std::optional<double> imbalance{}; ///< absent: the request's; infinity: any
    std::optional<double> label_cap{}; ///< absent: the method's, where there are labels; 0: none
    gneiss::balance_by balance = gneiss::balance_by::nodes;
    /// Where the parts go, by the node's number in the source; none: they are only measured. An interrupted run is gone on with
    /// from the journal beside it, OUT.journal, which a finished one removes.
    std::optional<std::filesystem::path> out{};
    gneiss::assignment_format format = gneiss::assignment_format::npy;
    bool anew = false; ///< an earlier run's journal is not gone on with
};

/// What became of parts.
struct partition_result {
    std::string method{}; ///< or the file's name that was measured
    gneiss::partition_quality quality{};
    double prepare_seconds = 0, partition_seconds = 0, quality_seconds = 0; ///< reading the graph or making lists; placing nodes; measuring
    std::uint64_t memory_bytes = 0; ///< charged to the budget while nodes were placed, the graph's with it
    std::uint64_t disk_bytes = 0;   ///< dataset, lists and temporary files together, at their most
    std::uint32_t resumed_step = 0; ///< of the journal that was gone on with
    bool in_memory = false;         ///< the graph was
    bool labels = false;            ///< there are

    [[nodiscard]] double seconds() const noexcept { return prepare_seconds + partition_seconds + quality_seconds; }
};

/// Gives every node of a dataset a part within the budget, writes the parts, and tells how good they are. Labels are those of
/// training nodes. The result depends on graph, labels and job alone, and where memory is short on the budget for those that
/// make a graph of clusters, which is coarser then.
///
/// Throws usage_error for a job that makes no sense for the dataset; over_budget; errc::canceled on a stop; what a journal
/// of another job throws.
[[nodiscard]] partition_result make_parts(const gneiss::dataset& data, const partition_job& job, graph_work& with);

/// Tells how good parts of any origin are: integers [nodes], .npy. `parts`: how many there are; 0: as in the file.
[[nodiscard]] partition_result score_parts(
    const gneiss::dataset& data, const std::filesystem::path& file, std::uint32_t parts, graph_work& with);

/// Which hubs are asked for.
struct hub_job {
    std::uint64_t count = 0;
    std::uint32_t steps = 3;   ///< of a walk: layers of the model
    gneiss::lazy_walk lazy = gneiss::lazy_walk::half;
    std::uint32_t sampled = 0; ///< walks from each training node; 0: the exact answer
    std::uint64_t seed = 0;    ///< of sampled walks
    std::filesystem::path out{};
    /// Of the hubs those first ones are taken that need no more memory than this [bytes], where a hub takes `node_bytes` and an
    /// edge between two of them `edge_bytes`; 0: all.
    std::uint64_t most_bytes = 0, node_bytes = 0, edge_bytes = 0;
};

/// What became of hubs.
struct hub_result {
    std::uint64_t hubs = 0;     ///< that were taken
    double influence_share = 0; ///< of the walks, that end in one
    double seconds = 0;
    std::uint64_t memory_bytes = 0; ///< charged to the budget
    std::uint64_t edges = 0;        ///< of the graph, undirected
    bool in_memory = false;
};

/// Finds the nodes with the most influence on training nodes (partition/hubs.hpp) within the budget, and writes them, the
/// greatest influence first. Cost: `steps` passes over the graph, and one more where memory limits them.
/// Throws usage_error for no hubs or no training nodes; over_budget; errc::canceled on a stop.
[[nodiscard]] hub_result choose_hubs(const gneiss::dataset& data, const hub_job& job, graph_work& with);

} // namespace programs
