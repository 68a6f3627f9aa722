// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/inference/layerwise_inference.hpp>
#include <gneiss/inference/layerwise_input.hpp>
#include <gneiss/model/classify.hpp>
#include <gneiss/node_classification.hpp>
#include <gneiss/order/macro_batches.hpp>
#include <gneiss/order/node_plan.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/feature/cached_rows.hpp>
#include <gneiss/storage/feature/feature_buffer.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/train/choose_plan.hpp>
#include <gneiss/train/trainers/hanoi.hpp>

namespace gneiss {

/// Model and stores of a dataset by the options, and the plan of the run.
struct node_classifier::setup {
    setup(context& run, const dataset& data, node_classifier_options options)
        : run_(run),
          data_(data),
          options_(std::move(options)),
          buckets_(data.buckets()),
          features_(features_of(data)),
          encode_(weights_, layers(), columns()),
          store_(features_.files(), buckets_.rows()) {
        if (encode_.outputs() != classes())
            throw error(errc::invalid_argument,
                (options_.own_layers.empty() ? "layers " + options_.layers : "own layers") + " give " +
                    std::to_string(encode_.outputs()) + " columns for " + std::to_string(classes()) + " classes" +
                    (options_.own_layers.empty() ? ": leave out the last width" : ""));
        validate(training_options().neighbors.fanout, encode_.hops());
    }

    /// Returns the options of the trainer, for states of any size.
    [[nodiscard]] gnn_options training_options() const {
        gnn_options training;
        training.batch = options_.batch;
        training.neighbors.fanout = parse_fanout(options_.fanout, options_.direction);
        training.sampler = options_.sampler;
        training.own_sampler = options_.own_sampler;
        training.pipeline.staleness = options_.staleness;
        training.seed = run_.seed();
        return training;
    }
    [[nodiscard]] training_plan plan() const;

    static void check(const dataset& data) {
        const auto& of = data.manifest().node_attributes;
        const auto need = [&](bool there, const char* what, const char* field) {
            if (!there) throw error(errc::invalid_argument, what, {.path = data.directory(), .field = field});
        };
        need(of.classes != 0, "has no node labels", "labels");
        need(of.target == node_target_kind::classes,
            "has several labels per node, or numbers: train it by make_hanoi with targeted_nodes", "target");
        need(of.train != 0, "has no nodes to train on", "split");
        need(of.features != 0, "has no features of nodes", "features");
    }
    [[nodiscard]] node_features features_of(const dataset& data) const {
        node_features result = data.features();
        if (options_.normalize.value_or(result.sparse())) result.normalize_rows();
        return result;
    }
    [[nodiscard]] std::size_t classes() const noexcept {
        return static_cast<std::size_t>(data_.manifest().node_attributes.classes);
    }
    [[nodiscard]] std::vector<cpu_layer> layers() const {
        if (!options_.own_layers.empty()) return options_.own_layers;
        const std::vector<layer_options> parsed =
            parse_layers(options_.layers, {.dropout = options_.dropout, .last_width = classes()});
        return std::vector<cpu_layer>(parsed.begin(), parsed.end());
    }
    [[nodiscard]] input_columns columns() const {
        const auto count = static_cast<std::size_t>(features_.columns());
        return features_.sparse() ? input_columns{.dense = 0, .sparse = count}
                                  : input_columns{.dense = count, .sparse = 0};
    }
    [[nodiscard]] static graph_buffer_options form() noexcept { return {.form = graph_form::csr}; }
    [[nodiscard]] node_plan epoch_of(std::uint32_t resident, std::uint64_t epoch) const {
        return macro_batches(buckets_.rows().partitions, 0, resident, run_.seed(), epoch);
    }

    context& run_;
    const dataset& data_;
    node_classifier_options options_;
    bucket_store buckets_;
    node_features features_;
    dense_parameters<> weights_;
    cpu_encoder encode_;
    feature_store store_;
};

/// Members of a node classifier, in construction order.
struct node_classifier::parts : setup {
    parts(context& run, const dataset& data, node_classifier_options options)
        : setup(run, data, std::move(options)),
          plan_(setup::plan()),
          training_nodes_(data.nodes_of(node_split::train)),
          labels_(labels_of_rows()),
          graph_buffer_(buckets_, run.engines(), options_.direction, plan_.graph_bytes, run.budget(), form()) {
        weights_.allocate(run.seed());
        options_.optimizer.allocate_state(weights_);
        gnn_options training = training_options();
        training.resident_partitions = plan_.slots;
        const auto append = [this](std::uint32_t s, std::vector<node_id>& out) {
            append_training_nodes(epoch_, s, buckets_.rows(), training_nodes_, out);
        };
        trainer_.emplace(make_hanoi(training,
            gnn_parts{.task = classified_nodes{labels_, append, {}, options_.own_head},
                .encode = encode_,
                .weights = weights_,
                .optimizer = options_.optimizer,
                .inputs = inputs()},
            run.executor(), run.budget()));
    }
    /// Opens the features as the options request.
    [[nodiscard]] graph_inputs inputs() {
        if (!options_.own_cache) {
            feature_buffer_.emplace(store_, run_.engines(), plan_.feature_bytes, run_.budget());
            buffer_bytes_ += plan_.feature_bytes;
            return {.features = &*feature_buffer_, .graph = graph_buffer_};
        }
        if (store_.sparse())
            throw error(errc::invalid_argument, "has sparse features: a cache holds dense rows",
                {.path = data_.directory(), .field = "features"});
        const auto columns = static_cast<std::size_t>(store_.columns());
        const feature_files::array& values = store_.file(feature_part::values);
        const stored_rows rows{values.path, values.checksums.data_offset(), store_.rows().nodes, store_.row_bytes()};
        rows_.emplace(
            std::in_place_type<disk_rows>, run_.engines(), rows, gather_options{}, run_.executor(), run_.budget());
        policy_.emplace(options_.own_cache());
        cache_.emplace(*rows_, policy_->capacity(), slot_table_kind::hashed, run_.executor(), run_.budget());
        return {.stored_features = feature_rows{.source = *rows_,
                    .cache = &*cache_,
                    .policy = &*policy_,
                    .columns = columns,
                    .type = store_.type(),
                    .normalized = store_.normalized()},
            .graph = graph_buffer_};
    }
    [[nodiscard]] io_stats io() const {
        return graph_buffer_.statistics() + (cache_ ? cache_->statistics().io : feature_buffer_->statistics());
    }

    [[nodiscard]] std::vector<class_id> labels_of_rows() const {
        const auto values = data_.labels();
        std::vector<class_id> result;
        for (const std::int32_t label : values.values())
            result.push_back(label < 0 ? unlabeled : static_cast<class_id>(label));
        return result;
    }
    /// Directory for rows of an evaluation.
    [[nodiscard]] std::filesystem::path scratch() const {
        if (!options_.scratch.empty()) return options_.scratch;
        return ::access(data_.directory().c_str(), W_OK) == 0 ? data_.directory() : std::filesystem::path(".");
    }

    training_plan plan_;
    std::vector<node_id> training_nodes_;
    std::vector<class_id> labels_;
    std::uint64_t used_before_ = run_.budget().used();
    graph_buffer graph_buffer_;
    std::uint64_t buffer_bytes_ = run_.budget().used() - used_before_; // available to an evaluation
    std::optional<feature_buffer> feature_buffer_;
    std::optional<any_row_source> rows_; // with a cache, replaces the buffer
    std::optional<any_cache_policy> policy_;
    std::optional<cached_rows<any_row_source>> cache_;
    node_plan epoch_;      // current epoch
    resume_position at_{}; // resume position
    std::optional<hanoi_trainer> trainer_;
};

/// Plans macro-batches of all partitions if they fit and none are given, else of as many as fit.
GNEISS_INLINE training_plan node_classifier::setup::plan() const {
    const std::uint32_t p = buckets_.rows().partitions;
    const gnn_options training = training_options();
    const state_sizes sizes(buckets_, &store_);
    const auto buckets = std::make_shared<const bucket_store>(data_.buckets()); // the plan outlives this
    const auto store = std::make_shared<const feature_store>(features_.files(), buckets->rows());
    const auto with = [&](std::uint32_t slots) {
        training_plan plan({.partitions = p, .slots = slots, .in_memory = slots == p}, buckets_.rows());
        plan.budget = run_.budget().available();
        plan.order = [p, slots, seed = run_.seed()](
                         std::uint64_t epoch) { return macro_batches(p, 0, slots, seed, epoch).states; };
        plan.further_reads = [=, keeps = options_.direction](
                                 const epoch_plan& states) { return reads_of(states, p, keeps, *buckets, &*store); };
        for (std::uint64_t epoch = 0; epoch < (plan.in_memory ? 1U : 16U); ++epoch) { // later ones charge any excess
            const epoch_plan states = plan.order(epoch);
            plan.graph_bytes =
                std::max(plan.graph_bytes, graph_buffer::need(states, buckets_, options_.direction, form()).bytes);
            if (!options_.own_cache)
                plan.feature_bytes = std::max(plan.feature_bytes, feature_buffer::need(states, store_).bytes);
        }
        gnn_shape shape = sizes.of(slots);
        shape.columns = columns();
        const gnn_memory bound = bound_gnn_memory(training, shape, encode_.factories());
        const train_loop_options loop = loop_of_gnn(training, bound);
        plan.batches = loop.in_flight();
        plan.sample_bytes = loop.batch_bytes;
        plan.row_bytes = loop.row_bytes;
        plan.encoder_bytes = bound.encoder;
        plan.memory.add(graph_buffer::need(plan.graph_bytes));
        plan.memory.add(feature_buffer::need(plan.feature_bytes));
        plan.memory.add(bound.samplers(training.pipeline.sample_workers));
        plan.memory.add(bound.encoders());
        plan.memory.add(loop.need());
        return plan;
    };
    if (options_.resident != 0) return with(std::min(options_.resident, p));
    return choose_largest_states(p, 1, run_.budget().available(), with);
}

GNEISS_INLINE training_plan node_classifier::plan(
    context& run, const dataset& data, const node_classifier_options& options) {
    setup::check(data);
    return setup(run, data, options).plan();
}

GNEISS_INLINE node_classifier::node_classifier(context& run, const dataset& data, node_classifier_options options) {
    setup::check(data);
    parts_ = std::make_unique<parts>(run, data, std::move(options));
}
GNEISS_INLINE node_classifier::~node_classifier() = default;

GNEISS_INLINE classification_epoch node_classifier::train_epoch(
    const epoch_observer<training_statistics>& observer, const std::stop_token& stop) {
    parts& p = *parts_;
    const auto since = std::chrono::steady_clock::now();
    const io_stats before = p.io();
    const std::uint64_t number = p.at_.epoch;
    p.epoch_ = p.epoch_of(p.plan_.slots, number);
    const training_epoch done = p.trainer_->run(p.epoch_.states, number, p.at_.next, observer, stop);
    p.at_ = done.position;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - since;
    return {number, done.model, p.io() - before, took.count(), done.stopped};
}

GNEISS_INLINE classification_metrics node_classifier::evaluate(node_split part) {
    parts& p = *parts_;
    p.trainer_->enter(phase::evaluate);
    const std::uint64_t left = p.run_.budget().available();
    memory_budget memory(
        left > memory_budget::unlimited - p.buffer_bytes_ ? memory_budget::unlimited : left + p.buffer_bytes_);
    const std::vector<node_id> wanted = p.data_.nodes_of(part);
    classification_metrics result(p.classes());
    const layerwise_result scores =
        infer_layerwise(p.encode_, p.weights_, fixed_features(p.features_, p.buckets_.rows(), p.run_.engines()),
            p.buckets_, {.direction = p.options_.direction, .engines = p.run_.engines(), .scratch = p.scratch()},
            p.run_.executor(), memory);
    scores.rows->for_each_block([&](std::uint64_t first, matrix_view<const float> rows) {
        for (auto node = std::ranges::lower_bound(wanted, first); node != wanted.end() && *node < first + rows.rows();
            ++node)
            result.add(p.labels_[*node], predicted_class(rows[static_cast<std::size_t>(*node - first)]));
    });
    return result;
}

GNEISS_INLINE void node_classifier::set_optimizer(const dense_optimizer& optimizer) {
    parts_->trainer_->set_optimizers({.dense = optimizer});
}
GNEISS_INLINE cpu_encoder& node_classifier::encoder() noexcept { return parts_->encode_; }
GNEISS_INLINE dense_parameters<>& node_classifier::weights() noexcept { return parts_->weights_; }
GNEISS_INLINE pipeline_statistics node_classifier::statistics() const { return parts_->trainer_->statistics(); }
GNEISS_INLINE io_stats node_classifier::io() const { return parts_->io(); }

} // namespace gneiss
