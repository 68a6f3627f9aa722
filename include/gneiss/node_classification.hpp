// SPDX-License-Identifier: Apache-2.0
// The door to node classification: a graph neural network on a dataset that may be larger than memory.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/context.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/eval/accuracy.hpp>
#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/io/dataset.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/model/dense_optimizer.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/order/node_plan.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/train/gnn_trainer.hpp>

namespace gneiss {

/// Defaults are those of gneiss-hanoi, where they do not depend on the graph.
struct node_classifier_options {
    std::string layers = "sage:256,sage"; ///< as of `parse_layers`; the last width is the number of classes
    std::string fanout = "10,10";         ///< of each hop, as of `parse_fanout`; "all": every neighbor
    neighbor_direction direction = neighbor_direction::both;
    sampler_kind sampler = sampler_kind::neighbor;
    double dropout = 0.5;
    dense_optimizer optimizer = make_dense_optimizer("adam", .01F);
    std::uint64_t batch = 1000;           ///< nodes
    std::uint32_t resident = 0;           ///< partitions in memory at a time, shuffled every epoch; 0: all
    std::optional<bool> normalize{};      ///< features of a node sum to 1; default: sparse ones
    std::uint64_t staleness = 16;         ///< batches prepared ahead; it changes no result, since no row is learned
};

/// An epoch of `node_classifier`.
struct classification_epoch {
    std::uint64_t number = 0;
    training_statistics model; ///< sums over the epoch
    io_stats io;               ///< of graph and features
    double seconds = 0;

    [[nodiscard]] double mean_loss() const noexcept { return model.mean_loss(); }   ///< a node
    [[nodiscard]] double accuracy() const noexcept { return model.accuracy(); }     ///< of the batches' scores while training
};

/// Trains a graph neural network to classify the nodes of a dataset with features and labels: Hanoi's macro-batches of random
/// partitions, or all in memory.
///
///     context run({.memory = std::uint64_t{1} << 30});
///     const dataset data("amazon-photo");
///     node_classifier train(run, data, {.layers = "sage:64,sage", .resident = 4});
///     for (const auto& epoch : train.epochs(20)) losses.push_back(epoch.mean_loss());
///     const double accuracy = train.evaluate(node_split::test).accuracy();
///
/// Memory: graph and features of two states and the batches in flight, charged to the context's budget; an evaluation takes what
/// is left beside and what the buffers give up. Errors: errc::invalid_argument for a dataset without labels, training nodes or
/// features, naming it; over_budget with all parts. Thread-safety: one driving thread.
class node_classifier {
public:
    /// Precondition: what is passed by reference outlives this.
    node_classifier(context& run, const dataset& data, node_classifier_options options = {})
        : run_(run), data_(checked(data)), options_(std::move(options)), buckets_(data.buckets()), features_(features_of(data)),
          partitions_(buckets_.rows().partitions), resident_(options_.resident == 0 ? partitions_ : std::min(options_.resident, partitions_)),
          training_nodes_(data.nodes_of(node_split::train)), labels_(labels_of_rows()),
          encode_(weights_, parse_layers(options_.layers, {.dropout = options_.dropout, .last_width = classes()}), columns()),
          store_(features_.files(), buckets_.rows()),
          feature_buffer_(store_, run.engines(), bytes([&](const epoch_plan& plan) { return feature_buffer::bytes_needed(plan, store_); }), run.budget()),
          graph_buffer_(buckets_, run.engines(), options_.direction,
              bytes([&](const epoch_plan& plan) { return graph_buffer::bytes_needed(plan, buckets_, options_.direction, form()); }), run.budget(), form()) {
        if (encode_.outputs() != classes())
            throw error(errc::invalid_argument, "layers " + options_.layers + " give " + std::to_string(encode_.outputs()) + " columns for " +
                                                    std::to_string(classes()) + " classes: leave out the last width");
        weights_.allocate(run.seed());
        options_.optimizer.allocate_state(weights_);
        gnn_trainer_options training{.batch = options_.batch, .sampler = options_.sampler, .pipeline = {.staleness = options_.staleness},
            .resident_partitions = resident_, .seed = run.seed()};
        training.neighbors.fanout = parse_fanout(options_.fanout, options_.direction);
        trainer_.emplace(training, classified_nodes{labels_, [this](std::uint32_t s, std::vector<node_id>& out) {
            append_training_nodes(plan_, s, buckets_.rows(), training_nodes_, out);
        }}, encode_, weights_, options_.optimizer, sgd{}, graph_inputs{.features = &feature_buffer_, .graph = graph_buffer_}, run.executor(), run.budget());
    }

    /// Trains one epoch.
    classification_epoch train_epoch(const training_observer& observer = {}, const std::stop_token& stop = {}) {
        const auto since = std::chrono::steady_clock::now();
        const io_stats before = io();
        plan_ = plan(next_);
        const training_epoch done = trainer_->run(plan_.states, next_, {}, observer, stop);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
        return {next_++, done.model, io() - before, took.count()};
    }

    /// `count` epochs, each trained when it is asked for: the range of a for loop.
    [[nodiscard]] auto epochs(std::uint64_t count) { return epoch_range<node_classifier, classification_epoch>(*this, count); }

    /// Accuracy and F1 on the nodes of a split, with all neighbors, layer by layer.
    [[nodiscard]] classification_metrics evaluate(node_split part) {
        trainer_->enter(phase::evaluate);
        const std::vector<node_id> wanted = data_.nodes_of(part);
        classification_metrics result(classes());
        const layerwise_result scores = infer_layerwise(encode_, weights_, fixed_features(features_, buckets_.rows()), buckets_,
            {.direction = options_.direction, .engines = run_.engines(), .scratch = scratch()}, run_.executor(), run_.budget());
        scores.rows->for_each_block([&](std::uint64_t first, matrix_view<const float> rows) {
            for (auto node = std::ranges::lower_bound(wanted, first); node != wanted.end() && *node < first + rows.rows(); ++node)
                result.add(labels_[*node], predicted_class(rows[static_cast<std::size_t>(*node - first)]));
        });
        return result;
    }

    /// Steps by this optimizer from the next epoch on: for schedules.
    void set_optimizer(const dense_optimizer& optimizer) { trainer_->set_optimizers(sgd{}, optimizer); }

    [[nodiscard]] cpu_encoder& encoder() noexcept { return encode_; }
    [[nodiscard]] dense_parameters<>& weights() noexcept { return weights_; }
    [[nodiscard]] pipeline_statistics statistics() const { return trainer_->statistics(); }
    [[nodiscard]] io_stats io() const { return graph_buffer_.statistics() + feature_buffer_.statistics(); }

private:
    [[nodiscard]] static const dataset& checked(const dataset& data) {
        const auto& of = data.manifest().node_attributes;
        const auto need = [&](bool there, const char* what, const char* field) {
            if (!there) throw error(errc::invalid_argument, what, {.path = data.directory(), .field = field});
        };
        need(of.classes != 0, "has no node labels", "labels");
        need(of.train != 0, "has no nodes to train on", "split");
        need(of.features != 0, "has no features of nodes", "features");
        return data;
    }
    [[nodiscard]] node_features features_of(const dataset& data) const {
        node_features result = data.features();
        if (options_.normalize.value_or(result.sparse())) result.normalize_rows();
        return result;
    }
    [[nodiscard]] std::vector<class_id> labels_of_rows() const {
        const auto values = data_.labels();
        std::vector<class_id> result;
        for (const std::int32_t label : values.values()) result.push_back(label < 0 ? unlabeled : static_cast<class_id>(label));
        return result;
    }
    [[nodiscard]] std::size_t classes() const noexcept { return static_cast<std::size_t>(data_.manifest().node_attributes.classes); }
    [[nodiscard]] input_columns columns() const {
        const auto count = static_cast<std::size_t>(features_.columns());
        return features_.sparse() ? input_columns{.dense = 0, .sparse = count} : input_columns{.dense = count, .sparse = 0};
    }
    [[nodiscard]] static graph_buffer_options form() noexcept { return {.form = graph_form::csr}; }
    [[nodiscard]] node_plan plan(std::uint64_t epoch) const { return macro_batches(partitions_, 0, resident_, run_.seed(), epoch); }
    /// Bytes of a buffer for whichever partitions are together: twice the most that one state of the first epochs needs alone.
    template <class Need>
    [[nodiscard]] std::uint64_t bytes(Need need) const {
        std::uint64_t most = 0;
        for (std::uint64_t epoch = 0; epoch < (resident_ == partitions_ ? 1U : 16U); ++epoch) most = std::max<std::uint64_t>(most, need(plan(epoch).states));
        return most;
    }
    [[nodiscard]] static std::filesystem::path scratch() { return std::filesystem::temp_directory_path(); }

    context& run_;
    const dataset& data_;
    node_classifier_options options_;
    bucket_store buckets_;
    node_features features_;
    std::uint32_t partitions_, resident_;
    std::vector<node_id> training_nodes_;
    std::vector<class_id> labels_;
    dense_parameters<> weights_;
    cpu_encoder encode_;
    feature_store store_;
    feature_buffer feature_buffer_;
    graph_buffer graph_buffer_;
    node_plan plan_; // of the epoch
    std::uint64_t next_ = 0;
    std::optional<gnn_trainer> trainer_;
};

} // namespace gneiss
