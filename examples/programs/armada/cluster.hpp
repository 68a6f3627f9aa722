// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gneiss/core/row_layout.hpp>
#include <gneiss/dist/feature_cache.hpp>
#include <gneiss/dist/group_sampler.hpp>
#include <gneiss/sample/mini_batch.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/statistics.hpp>

namespace armada {

/// A batch, and the logical worker that it is of.
struct remote_batch {
    gneiss::batch_key key{};
    std::uint32_t worker = 0;
    std::uint64_t first = 0;               ///< index of the first batch of its group
    std::uint32_t member = 0, members = 1; ///< place in the group, and batches there
};

/// Batch workers and replicas in other processes, as the driver uses them. What they compute are functions of their
/// arguments: an implementation repeats any of it elsewhere when a process dies.
class cluster {
public:
    cluster() = default;
    cluster(const cluster&) = delete;
    cluster& operator=(const cluster&) = delete;
    virtual ~cluster() = default;

    /// Replicas, and owners of learned rows, continue with these parameters after step `steps`, by the optimizers of an
    /// epoch.
    struct parameters {
        std::span<const float> values, state;
        std::span<const float> rows; ///< learned ones of all nodes, with their state; empty: none
    };
    virtual void begin(std::uint64_t epoch, double plateau, std::uint64_t steps, const parameters& from) = 0;
    /// Announces the batches of a round, in their order; rounds come in the order of an epoch. Only with a cache, for
    /// which the batches to come are sampled ahead.
    virtual void expect(std::span<const remote_batch> batches) = 0;
    /// Has the frames of a batch's group made, which a later step needs. By any thread; does not wait.
    virtual void request(const remote_batch& batch) = 0;
    /// Makes a step by the batches, of replica 0 first, and returns the statistics of each. Waits. `coming`: those of
    /// the next step; empty: not known yet. Replicas may compute them before the next call.
    [[nodiscard]] virtual std::vector<gneiss::training_statistics> step(
        std::uint64_t step, std::span<const remote_batch> batches, std::span<const remote_batch> coming) = 0;
    /// Writes the parameters after the last step: all of them, or none if it throws.
    virtual void end(std::span<float> values, std::span<float> state, std::span<float> rows) = 0;
    /// Returns what the batch workers have read.
    [[nodiscard]] virtual gneiss::io_stats io() const = 0;
    /// Seconds of the driver so far.
    struct seconds {
        double frames = 0; ///< waiting for batch workers, with nothing for compute workers to do
        double steps = 0;  ///< waiting for compute workers
    };
    [[nodiscard]] virtual seconds waited() const = 0;
    /// Returns the bytes of all frames that steps used.
    [[nodiscard]] virtual std::uint64_t frame_bytes() const = 0;
    /// Returns the bytes of ids that batch workers sent for the cache, and of the answers.
    [[nodiscard]] virtual std::uint64_t id_bytes() const = 0;
    /// Returns the messages between logical batch workers for these frames and ids.
    [[nodiscard]] virtual gneiss::construction_traffic traffic() const = 0;
    /// Returns the number of frames that each batch actor made, by its name.
    [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> frames() const = 0;
    /// Returns the bytes of frames and gradients that went from an actor to another: "batch-0 > compute-1".
    [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> links() const = 0;
    /// Returns fields of the live line: what either role makes and how long it waits, and bytes by link.
    [[nodiscard]] virtual std::string live_fields() const = 0;
};

/// Arguments of a cluster.
struct cluster_request {
    std::string local, address; ///< as the flags
    std::string config;         ///< resolved flags, as a file for --config
    std::uint64_t dataset = 0;  ///< `dataset_sum`, which that of every worker has to equal
    std::uint64_t run = 0;      ///< in the frames; the same
    std::uint32_t batch_workers = 1, replicas = 1, group_batches = 1;
    std::uint32_t compute_workers = 1; ///< processes with replicas
    std::uint64_t threads = 0;         ///< of a process; 0: as many as fit
    std::uint64_t graph_bytes = 0;     ///< of a logical worker's partitions
    std::uint64_t feature_bytes = 0;   ///< the same
    std::uint64_t gradient_bytes = 0;  ///< of a replica
    std::uint32_t owners = 0;          ///< processes that own learned rows; 0: none are learned
    gneiss::row_partitioning rows{};   ///< of the nodes
    std::size_t row_floats = 0;        ///< of a learned row, with its state
    std::uint64_t memory_bytes = 0;    ///< --memory
    std::uint64_t superbatch = 0;      ///< groups that are sampled ahead for a cache
    bool asks_owners = false;          ///< batch workers ask each other: remote construction
    std::function<gneiss::delivery_planner()>
        cache{}; ///< plans for the empty cache of a compute worker; none: no cache
    std::function<void(const std::string&)> say{}, warn{};
};

/// The engine that a cluster runs on. It comes from outside the program: with the Python package.
struct cluster_engine {
    std::function<void()> check; ///< throws if it is not there, before anything is planned
    std::function<std::unique_ptr<cluster>(const cluster_request&)> start;
};

/// Sets the engine of this process, once, before any training.
void set_cluster_engine(cluster_engine engine);
/// Returns it. Throws usage_error if there is none.
[[nodiscard]] const cluster_engine& engine_of_clusters();

/// Numbers of processes: BxC. Without batch workers, compute workers make the batches.
struct process_counts {
    std::uint32_t batch = 1, compute = 1;
};
/// Reads "3x2". Throws usage_error.
[[nodiscard]] process_counts parse_counts(const std::string& text);

} // namespace armada
