// SPDX-License-Identifier: Apache-2.0
// Entry point for node classification: trains a GNN on a dataset that may exceed memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <gneiss/cache/any_policy.hpp>
#include <gneiss/context.hpp>
#include <gneiss/eval/accuracy.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/any_layer_factory.hpp>
#include <gneiss/model/backend/eigen.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/sample/any_graph_sampler.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/any_loss_head.hpp>
#include <gneiss/train/epoch_driver.hpp>
#include <gneiss/train/statistics.hpp>
#include <gneiss/train/training_plan.hpp>

namespace gneiss {

/// Options of `node_classifier`. The defaults are those of gneiss-hanoi, unless they depend on the graph.
struct node_classifier_options {
    std::string layers = "sage:256,sage"; ///< see `parse_layers`; the last width is the number of classes
    /// replaces `layers` and `dropout`; the last layer is as wide as the number of classes
    std::vector<cpu_layer> own_layers{};
    std::string fanout = "10,10";                            ///< per hop, see `parse_fanout`; "all": every neighbor
    neighbor_direction direction = neighbor_direction::both; ///< direction that neighbors are sampled in
    sampler_kind sampler = sampler_kind::neighbor;           ///< sampler of neighborhoods
    std::optional<any_graph_sampler> own_sampler{};          ///< replaces `sampler`; `fanout` bounds its samples
    /// Loss on class scores, any `loss_head`, in place of softmax cross-entropy: reads batch.labels or batch.seeds.
    std::optional<any_loss_head> own_head{};
    /// Creates the policy of a feature cache: features stay on disk, dense rows are read one by one, and the policy
    /// decides which stay in memory. Empty: features of the resident partitions are in memory.
    ///
    ///     .own_cache = [] { return lru(/*rows*/ 100'000); }
    std::function<any_cache_policy()> own_cache{};
    double dropout = 0.5; ///< probability that training drops an input of a layer
    /// Optimizer of the weights.
    dense_optimizer optimizer = make_dense_optimizer("adam", .01F);
    std::uint64_t batch = 1000; ///< nodes
    /// partitions in memory at a time, shuffled every epoch; 0: as many as fit, see `node_classifier::plan`
    std::uint32_t resident = 0;
    std::optional<bool> normalize{}; ///< normalize features of a node to sum 1; default: sparse ones
    std::uint64_t staleness = 16;    ///< batches prepared ahead; does not affect results, since no row is learned
    /// existing directory for an evaluation's rows that exceed memory; empty: the dataset's, or the current one if that
    /// is read-only
    std::filesystem::path scratch{};
};

/// Statistics of an epoch of `node_classifier`.
struct classification_epoch {
    std::uint64_t number = 0;  ///< number of the epoch
    training_statistics model; ///< sums over the epoch
    io_stats io;               ///< graph and features
    double seconds = 0;        ///< wall-clock time
    bool stopped = false;      ///< ended early; the next call resumes it

    [[nodiscard]] double mean_loss() const noexcept { return model.mean_loss(); } ///< per node
    [[nodiscard]] double accuracy() const noexcept {
        return model.accuracy();
    } ///< for the batches' scores during training
};

/// Trains a GNN to classify the nodes of a dataset with features and labels: Hanoi's macro-batches of random
/// partitions, or all in memory.
///
///     context run({.memory = std::uint64_t{1} << 30});
///     const dataset data("amazon-photo");
///     node_classifier train(run, data, {.layers = "sage:64,sage", .resident = 4});
///     for (const auto& epoch : train.epochs(20)) losses.push_back(epoch.mean_loss());
///     const double accuracy = train.evaluate(node_split::test).accuracy();
///
/// Memory: graph and features of two states and the batches in flight, charged as `plan` says. An evaluation
/// uses the rest of the budget and the memory that the buffers free. Errors: errc::invalid_argument for a dataset
/// without labels, training nodes or features, naming it; over_budget with all parts. Thread-safety: one driving
/// thread.
///
/// From examples/27_own_classifier_parts.cpp:
/// \snippet 27_own_classifier_parts.cpp classifier
class node_classifier {
public:
    /// Precondition: arguments passed by reference outlive this.
    node_classifier(context& run, const dataset& data, node_classifier_options options = {});
    node_classifier(context&, const dataset&&, node_classifier_options = {}) = delete; // the dataset must outlive this
    ~node_classifier();

    /// Returns the plan of such a trainer in the memory that the context's budget has left: partitions in memory, what
    /// is charged for each part, and what an epoch reads. It prints itself by `to_string`. Without `resident`, all
    /// partitions are in memory if they fit; else as many as fit. Charges nothing. With `own_cache`, the cache and its
    /// gathers come on top.
    ///
    ///     const training_plan plan = node_classifier::plan(run, data, options);
    ///     if (!plan.fits()) throw over_budget(plan.budget, plan.memory.parts());
    [[nodiscard]] static training_plan plan(
        context& run, const dataset& data, const node_classifier_options& options = {});

    /// Trains one epoch, or the rest of a stopped one.
    classification_epoch train_epoch(
        const epoch_observer<training_statistics>& observer = {}, const std::stop_token& stop = {});

    /// Returns a range of `count` epochs for a for loop, each trained on demand.
    [[nodiscard]] auto epochs(std::uint64_t count) {
        return epoch_range<node_classifier, classification_epoch>(*this, count);
    }

    /// Computes accuracy and F1 on the nodes of a split, with all neighbors, layer by layer. Computes all nodes,
    /// whatever the split.
    ///
    /// Cost: that of `infer_layerwise`, each row of each layer once; in memory, edges and features are read once. Disk:
    /// none if the run fits in memory; else the rows of two consecutive layers [nodes, width], 4 bytes a value, written
    /// and read in `node_classifier_options::scratch`. The files are removed at the end and after an error; only a
    /// killed process leaves them.
    /// Errors: over_budget with all parts; io_error, also for a scratch directory that is absent, full or read-only;
    /// errc::corrupt.
    [[nodiscard]] classification_metrics evaluate(node_split part);

    /// Sets the optimizer from the next epoch on, for schedules.
    void set_optimizer(const dense_optimizer& optimizer);

    /// Returns the GNN.
    [[nodiscard]] cpu_encoder& encoder() noexcept;
    /// Returns the weights of the GNN.
    [[nodiscard]] dense_parameters<>& weights() noexcept;
    [[nodiscard]] pipeline_statistics statistics() const;
    [[nodiscard]] io_stats io() const;

private:
    struct setup;
    struct parts;
    std::unique_ptr<parts> parts_;
};

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/detail/node_classification.hpp>
#endif
