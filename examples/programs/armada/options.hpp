// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/dist/assignment.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/train/worker_batches.hpp>

#include "kit/cli/units.hpp"
#include "kit/gnn/node_classification_options.hpp"

namespace armada {

/// All flags of `gneiss-armada train`. Absent optionals are chosen by `resolve`, or by the plan.
struct options : trainers::node_classification_options {
    std::string role = "all";                        ///< work of this process: all of it
    std::uint32_t batch_workers = 1;                 ///< logical ones: they decide the bits
    std::uint32_t replicas = 1;                      ///< of the model; batches that share a step
    std::uint32_t group_batches = 1;                 ///< batches that share the rows of their nodes
    std::uint32_t compute_workers = 1;               ///< processes with replicas: no flag
    std::uint32_t hubs = 0;                          ///< leading partitions that all workers hold: no flag
    std::string construct = "local";                 ///< nodes that a worker samples: its own, or those of all workers
    std::string replicate = "none";                  ///< what all workers hold of a round
    std::string feature_cache = "none";              ///< policy of the cache of rows at a compute worker
    programs::count_or_percent cache{.percent = 10}; ///< its rows
    std::uint64_t superbatch = 100;                  ///< groups that are sampled ahead for it
    std::string inputs = "features";                 ///< of the first layer: features, learned rows, or both
    std::optional<std::uint32_t> dim;                ///< columns of learned rows
    std::optional<std::string> local, address; ///< processes that do the work, of a cluster of its own or of another

    void add_to(programs::command& to);

    /// True if other processes make batches and gradients.
    [[nodiscard]] bool elsewhere() const noexcept { return local || address; }
    /// True if compute workers make their batches: there are no others.
    [[nodiscard]] bool aggregated() const;
    /// Returns the nodes that a worker samples.
    [[nodiscard]] gneiss::construction construction() const {
        return construct == "remote" ? gneiss::construction::remote : gneiss::construction::local;
    }
    /// True if each worker holds the features of all partitions of the round, or there are none to ask for.
    [[nodiscard]] bool replicates_features() const {
        return replicate == "features" || (construction() == gneiss::construction::remote && !reads_features());
    }
    /// Returns the number of partitions that a worker samples within, of `partitions`. Precondition: --buffer is known.
    [[nodiscard]] std::uint32_t sampled_partitions(std::uint32_t partitions) const {
        const std::uint32_t workers = construction() == gneiss::construction::remote ? batch_workers : 1;
        return std::min(*buffer * workers + hubs, partitions);
    }
    /// Returns the plans of the batch workers in an epoch. Precondition: --buffer is known.
    [[nodiscard]] std::vector<gneiss::node_plan> assignment(std::uint32_t partitions, std::uint64_t epoch) const {
        return gneiss::assign_partitions(partitions, batch_workers, *buffer, seed, epoch, hubs);
    }
    /// Returns the columns of learned rows; 0: none are learned. Precondition: --dim is resolved.
    [[nodiscard]] std::size_t learned_columns() const { return inputs == "features" ? 0 : *dim; }
    /// True if the dataset's features are inputs.
    [[nodiscard]] bool reads_features() const { return inputs != "rows"; }
    /// Returns the number of batches that share feature rows; 1: none do, or there are none.
    [[nodiscard]] std::uint32_t batches_of_group() const { return reads_features() ? group_batches : 1; }
    /// Returns the number of processes that own learned rows, if others compute: as many as have replicas, but no more
    /// than partitions; 0: no rows are learned.
    [[nodiscard]] std::uint32_t row_owners(std::uint32_t partitions) const {
        return learned_columns() == 0 ? 0 : std::min(compute_workers, partitions);
    }
    /// Returns the library's options: those of a GNN, with the replicas.
    [[nodiscard]] gneiss::gnn_options armada_options() const {
        gneiss::gnn_options result = training_options();
        result.replicas.count = replicas;
        return result;
    }
    /// Returns the rows of the cache; 0: there is none.
    [[nodiscard]] std::uint64_t cached_rows(std::uint64_t nodes) const {
        return feature_cache == "none" ? 0 : std::clamp<std::uint64_t>(cache.of(nodes), 1, nodes);
    }
    /// Returns the number in the frames of a run on `data`: a hash of what decides its batches.
    [[nodiscard]] std::uint64_t frame_run(const gneiss::dataset& data) const;
};

/// Returns the flags with absent ones chosen from the graph; the plan chooses --buffer. Throws usage_error for
/// conflicting flags, errc::invalid_argument for a dataset without labels, training nodes or features.
[[nodiscard]] options resolve(const options& given, const gneiss::dataset& data);

} // namespace armada
