// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/assignment_file.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/hubs.hpp>
#include <gneiss/partition/quality.hpp>

#include "kit/graph/partitioners.hpp"

/// Preprocessing of the whole graph of a dataset: partitions of its nodes, hubs.
namespace programs {

/// Resources of preprocessing.
struct graph_work {
    gneiss::memory_budget& budget; ///< everything is charged to it before allocation
    const gneiss::tbb_executor& on;
    /// Called with a phase and its progress; a total of 0 is unknown.
    std::function<void(std::string_view phase, std::uint64_t done, std::uint64_t total)> progress;
    std::function<void(const std::string&)> say; ///< called with lines about the work
    std::stop_token stop{};
    std::string graph = "auto"; ///< location of the graph: memory; disk; auto, memory if it fits (graph_stream.hpp)
    /// for files of a dataset that cannot be written
    std::filesystem::path scratch = std::filesystem::temp_directory_path();
};

/// Parameters of partitioning.
struct partition_job {
    const partition_method& method;
    std::uint32_t parts = 0;
    std::uint64_t seed = 0;
    partitioner_flags flags{};
    std::optional<double> imbalance{}; ///< absent: the request's; infinity: any
    std::optional<double> label_cap{}; ///< absent: the method's, with labels; 0: none
    gneiss::balance_by balance = gneiss::balance_by::nodes;
    std::optional<std::string>
        initial{}; ///< parts to refine: of a partitioner, without label caps, or a file indexed as `out`
    std::vector<gneiss::node_id> hubs{}; ///< rows of nodes whose edges are left out, also from the quality
    /// Output file, indexed by the node's id in the source; none: only measures quality. An interrupted run resumes
    /// from the journal next to it, OUT.journal, which a finished run removes.
    std::optional<std::filesystem::path> out{};
    gneiss::assignment_format format = gneiss::assignment_format::npy;
    bool ignore_journal = false; ///< ignores the journal of an earlier run
};

/// Statistics of a partitioning.
struct partition_result {
    std::string method{}; ///< or the name of the file that was measured
    gneiss::partition_quality quality{};
    double prepare_seconds = 0, partition_seconds = 0,
           quality_seconds = 0;     ///< reading or building lists; placing; measuring
    std::uint64_t memory_bytes = 0; ///< charged to the budget while nodes were placed, graph included
    std::uint64_t disk_bytes = 0;   ///< dataset, lists and temporary files together, at the peak
    std::uint32_t resumed_step = 0; ///< last step of the journal that was resumed
    bool in_memory = false;         ///< true if the graph was in memory
    bool labels = false;            ///< true if there are labels

    [[nodiscard]] double seconds() const noexcept { return prepare_seconds + partition_seconds + quality_seconds; }
};

/// Assigns every node of a dataset to a partition within the budget, writes the assignment, and reports its quality.
/// Labels are those of training nodes. The result depends only on graph, labels and job; for methods with a cluster
/// graph also on the budget if memory is short, since the clusters are then coarser.
///
/// Throws usage_error for a job that does not fit the dataset; over_budget; errc::canceled on a stop; the journal's
/// error for a journal of another job.
[[nodiscard]] partition_result make_parts(const gneiss::dataset& data, const partition_job& job, graph_work& with);

/// Reports the quality of any partitioning: integers [nodes], as `read_assignment` reads them. `parts`: number of
/// partitions; 0: as in the file.
[[nodiscard]] partition_result score_parts(
    const gneiss::dataset& data, const std::filesystem::path& file, std::uint32_t parts, graph_work& with);

/// Parameters of hub selection.
struct hub_job {
    std::uint64_t count = 0;
    std::uint32_t steps = 3; ///< length of a walk: layers of the model
    gneiss::lazy_walk lazy = gneiss::lazy_walk::half;
    std::uint32_t sampled = 0; ///< walks from each training node; 0: the exact answer
    std::uint64_t seed = 0;    ///< seed of sampled walks
    std::filesystem::path out{};
    /// Takes only the first hubs that fit this memory [bytes], where a hub takes `node_bytes` and an edge between two
    /// hubs `edge_bytes`; 0: all.
    std::uint64_t most_bytes = 0, node_bytes = 0, edge_bytes = 0;
};

/// Statistics of hub selection.
struct hub_result {
    std::uint64_t hubs = 0;     ///< number selected
    double influence_share = 0; ///< share of walks that end in a hub
    double seconds = 0;
    std::uint64_t memory_bytes = 0; ///< charged to the budget
    std::uint64_t edges = 0;        ///< undirected edges of the graph
    bool in_memory = false;
};

/// Finds the nodes with the most influence on training nodes (partition/hubs.hpp) within the budget, and writes them by
/// descending influence. Cost: `steps` passes over the graph, and one more if memory limits them. Throws usage_error
/// for no hubs or no training nodes; over_budget; errc::canceled on a stop.
[[nodiscard]] hub_result choose_hubs(const gneiss::dataset& data, const hub_job& job, graph_work& with);

} // namespace programs
