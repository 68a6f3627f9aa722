// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <gneiss/io/dataset.hpp>
#include <gneiss/train/cpu_backend.hpp>
#include <gneiss/train/trainers/mariusgnn.hpp>

namespace trainers {

/// Mean and standard deviation of regression's targets among the training nodes, by column: networks learn targets in
/// these units. Empty for other tasks.
class target_scale {
public:
    target_scale() = default;
    /// Measures the training nodes of a dataset. Two passes over their targets.
    explicit target_scale(const gneiss::dataset& data);

    /// Replaces targets by their distance from the mean, in deviations.
    void scale(std::span<float> targets) const;
    /// Replaces outputs by targets.
    void unscale(std::span<float> outputs) const;

private:
    std::vector<float> mean_, deviation_;
};

/// The values that a node task predicts, of all nodes of a dataset: a class, a row of labels, or a row of numbers. It
/// does not move while `task` is in use.
class node_truth {
public:
    node_truth() = default;
    /// Maps the labels or targets of `data`, verified. `data` outlives this.
    explicit node_truth(const gneiss::dataset& data);
    node_truth(const node_truth&) = delete;
    node_truth& operator=(const node_truth&) = delete;

    [[nodiscard]] gneiss::node_target_kind kind() const noexcept { return kind_; }
    /// Returns the number of classes, or of numbers per node.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    /// Returns the class of each node; empty for other kinds.
    [[nodiscard]] std::span<const gneiss::class_id> labels() const { return gneiss::classes_of(labels_.values()); }
    [[nodiscard]] const gneiss::mapped_targets& targets() const noexcept { return targets_; }
    [[nodiscard]] const target_scale& scale() const noexcept { return scale_; }
    /// Returns the dataset. Precondition: constructed with one.
    [[nodiscard]] const gneiss::dataset& data() const noexcept { return *data_; }

    /// Returns the node task of a trainer: `nodes` writes the seeds of a state, and classes or targets weigh as by
    /// --class-weights.
    [[nodiscard]] gneiss::gnn_task task(
        std::function<void(std::uint32_t state, std::vector<gneiss::node_id>& out)> nodes,
        const std::optional<std::string>& class_weights, const gneiss::dataset& data,
        std::span<const gneiss::node_id> train) const;
    /// Returns the training of rows of targets with the weights of --class-weights; empty if nodes have one class.
    [[nodiscard]] std::optional<gneiss::target_task> target_task(const std::optional<std::string>& class_weights,
        const gneiss::dataset& data, std::span<const gneiss::node_id> train) const;
    /// Returns the weights of classes by --class-weights; empty without it, and if nodes have rows of targets.
    [[nodiscard]] std::vector<float> class_weights(const std::optional<std::string>& spec, const gneiss::dataset& data,
        std::span<const gneiss::node_id> train) const;

private:
    const gneiss::dataset* data_ = nullptr;
    gneiss::node_target_kind kind_ = gneiss::node_target_kind::classes;
    std::size_t columns_ = 0;
    gneiss::mapped_array<std::int32_t> labels_;
    gneiss::mapped_targets targets_;
    target_scale scale_;
};

/// Returns "4 classes", or "2 targets" of regression.
[[nodiscard]] std::string classes_text(const gneiss::dataset_manifest& graph);

} // namespace trainers
