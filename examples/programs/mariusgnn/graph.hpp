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

#include "options.hpp"

namespace mariusgnn {

/// What a run trains on: nodes with what goes in and their classes, and the edges in the run's partitions.
///
/// That is the run's dataset, until `--reshuffle` sends its nodes to other partitions: then a dataset of its own in
/// RUN/checkpoint, the same by name, that checkpoints name.
class run_graph {
public:
    /// \param edges  the dataset's in the run's partitions, if it has others
    run_graph(const options& settings, std::shared_ptr<const gneiss::dataset> data, std::shared_ptr<const gneiss::dataset> edges = {});

    [[nodiscard]] const gneiss::dataset& data() const { return *data_; }
    [[nodiscard]] const gneiss::bucket_store& buckets() const { return buckets_; }
    /// Null: none go in.
    [[nodiscard]] const gneiss::node_features* features() const { return features_ ? &*features_ : nullptr; }
    /// Of all nodes, of a node task.
    [[nodiscard]] std::span<const gneiss::class_id> labels() const { return gneiss::classes_of(labels_.values()); }
    /// Of a node task, ascending.
    [[nodiscard]] const std::vector<gneiss::node_id>& training_nodes() const { return train_; }

    /// How many of the first partitions hold all training nodes; by `--training-first`, where these are about to be placed there, too.
    [[nodiscard]] std::uint32_t leading(const options& settings, const gneiss::row_partitioning& partitioning) const;

    /// Where nodes go at the beginning of `epoch`: anywhere, but those that train stay among the first, where they lie first.
    [[nodiscard]] gneiss::row_shuffle shuffle(std::uint64_t seed, std::uint64_t epoch) const;

private:
    std::shared_ptr<const gneiss::dataset> data_, edges_;
    gneiss::bucket_store buckets_;
    std::optional<gneiss::node_features> features_;
    gneiss::mapped_array<std::int32_t> labels_;
    std::vector<gneiss::node_id> train_;
};

/// What the graph of an epoch that began with a reshuffle is called.
[[nodiscard]] std::string graph_name(std::uint64_t epoch);
/// Which one a checkpoint names; empty: the run's dataset.
[[nodiscard]] std::string graph_named(const gneiss::checkpoint& saved);
void name_graph(gneiss::checkpoint& to, const std::string& name);
/// Opens it for the run `run`; empty for the run's dataset. Throws errc::not_found when it is not there.
[[nodiscard]] std::shared_ptr<const gneiss::dataset> open_graph(const std::filesystem::path& run, const gneiss::checkpoint& saved);
/// Removes graphs in `run` that neither `name` is, nor the best state names, and what is left of unfinished ones.
void remove_other_graphs(const std::filesystem::path& run, const std::string& name);

} // namespace mariusgnn
