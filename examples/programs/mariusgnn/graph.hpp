// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/io/row_shuffle.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "kit/gnn/node_truth.hpp"
#include "options.hpp"

namespace mariusgnn {

/// Training data of a run: nodes with inputs and labels, and the edges in the run's partitions.
///
/// It is the run's dataset, until `--reshuffle` moves its nodes to other partitions: then a dataset in RUN/checkpoint
/// with the same node names, which checkpoints name.
class run_graph {
public:
    /// \param edges  the dataset's edges in the run's partitions, if these differ
    run_graph(const options& settings, std::shared_ptr<const gneiss::dataset> data,
        std::shared_ptr<const gneiss::dataset> edges = {});

    [[nodiscard]] const gneiss::dataset& data() const { return *data_; }
    [[nodiscard]] const gneiss::bucket_store& buckets() const { return buckets_; }
    /// Returns the features that the host gathers for batches; null: none, or a device has them.
    [[nodiscard]] const gneiss::node_features* gathered_features(const options& settings) const {
        return settings.places_features() ? nullptr : features();
    }
    /// Returns the features; null: none are used.
    [[nodiscard]] const gneiss::node_features* features() const { return features_ ? &*features_ : nullptr; }
    /// Returns labels or targets of all nodes, for node tasks.
    [[nodiscard]] const trainers::node_truth& truth() const { return *truth_; }
    /// Returns training nodes, for node classification; ascending.
    [[nodiscard]] const std::vector<gneiss::node_id>& training_nodes() const { return train_; }

    /// Returns the number of leading partitions that hold all training nodes; with `--training-first`, after they are
    /// placed there.
    [[nodiscard]] std::uint32_t leading(const options& settings, const gneiss::row_partitioning& partitioning) const;

    /// Returns the node permutation at the beginning of `epoch`: random, but training nodes stay in the leading
    /// partitions if they are there.
    [[nodiscard]] gneiss::row_shuffle shuffle(std::uint64_t seed, std::uint64_t epoch) const;

private:
    std::shared_ptr<const gneiss::dataset> data_, edges_;
    gneiss::bucket_store buckets_;
    std::optional<gneiss::node_features> features_;
    std::unique_ptr<const trainers::node_truth> truth_;
    std::vector<gneiss::node_id> train_;
};

/// Returns the name of the graph of an epoch that began with a reshuffle.
[[nodiscard]] std::string graph_name(std::uint64_t epoch);
/// Returns the graph name in a checkpoint; empty: the run's dataset.
[[nodiscard]] std::string graph_named(const gneiss::checkpoint& saved);
void name_graph(gneiss::checkpoint& to, const std::string& name);
/// Opens the graph for the run `run`; empty for the run's dataset. Throws errc::not_found if it is missing.
[[nodiscard]] std::shared_ptr<const gneiss::dataset> open_graph(
    const std::filesystem::path& run, const gneiss::checkpoint& saved);
/// Removes graphs in `run`, except `name` and that of the best state, and leftovers of unfinished ones.
void remove_other_graphs(const std::filesystem::path& run, const std::string& name);

} // namespace mariusgnn
