// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/dataset.hpp>

#include "kit/gnn/class_weights.hpp"
#include "kit/gnn/device_network.hpp"
#include "kit/gnn/feature_diagnosis.hpp"
#include "kit/gnn/node_classification_training.hpp"
#include "kit/gnn/schedule_file.hpp"
#include "kit/run/train.hpp"

namespace trainers {

/// A prepared run of a network on given features, or learned rows, of a program with the flags `Options`. Derived
/// classes plan and begin it.
template <std::derived_from<node_classification_options> Options>
class feature_run : public configured_run<Options> {
public:
    [[nodiscard]] const gneiss::bucket_store& buckets() const override { return buckets_; }

protected:
    /// \param resolved  flags
    feature_run(run_context&& context, Options resolved)
        : configured_run<Options>(std::move(context), std::move(resolved)),
          data_(this->context_.data),
          net_(network_of(flags_, *data_)) {
        open_features();
        bool by_change_sets = false;
        if constexpr (requires { flags_.tier_by_change_sets(); }) by_change_sets = flags_.tier_by_change_sets();
        choose_feature_place(flags_, this->context_.device.get(), features_, this->context_.live, by_change_sets);
        check_class_weights(flags_.class_weights, *data_);
    }

    /// Opens the features of `data_`.
    void open_features() {
        if (!reads_features(flags_)) return;
        features_ = data_->features();
        if (*flags_.normalize_features) features_.normalize_rows();
    }
    /// Returns what is trained, in words. \param task  of links; empty: nodes
    [[nodiscard]] std::string introduction(std::string task = {}) const {
        const gneiss::dataset_manifest& graph = data_->manifest();
        if (task.empty()) task = fmt::format("{}, {} nodes to train", classes_text(graph), graph.node_attributes.train);
        const std::string inputs = reads_features(flags_)
            ? fmt::format("{} features", graph.node_attributes.features)
            : fmt::format("{} learned columns", net_.encode.inputs().dense);
        return fmt::format("{}: {} nodes, {} edges, {}; {} of {}, fan-out {} ({})", graph.name, graph.nodes,
            graph.train_edges, task, *flags_.layers, inputs, *flags_.fanout, *flags_.direction);
    }
    /// Warns of features, and checks the run of --warm-start and the file of --schedule.
    void check() {
        run_context& context = this->context_;
        if (const std::string doubt = doubt_features(*data_, features_); !doubt.empty()) context.live.warn(doubt);
        check_warm_start(context.program, flags_, this->command(), *data_);
        if (!flags_.schedule || *flags_.schedule == "auto" || flags_.resume) return;
        const std::vector<gneiss::layer_options> layers = layers_of(net_.encode);
        (void)read_schedule(*flags_.schedule, {layers, net_.encode.inputs()});
    }
    /// Makes the backend of a device for node classification, by the plan.
    /// \param staged  what the device keeps of macro-batches; null: nothing
    void open_backend(const training_plan& plan, const staged_inputs* staged = nullptr) {
        if (!flags_.links())
            device_ = classifier_on(this->context_.device.get(), flags_, net_, plan, features_, buckets_,
                this->context_.engine.make, staged);
    }
    /// Returns what a trainer needs; reads the labels, unless they are there or the run predicts links.
    [[nodiscard]] node_classification_training::parts parts(const training_plan& plan, const opened_run& opened) {
        run_context& context = this->context_;
        if (!classes_ && !flags_.links()) classes_.emplace(*data_);
        return {flags_, this->command(), *context.data, *data_, features_, classes_ ? &*classes_ : nullptr, plan,
            opened, context.engine, net_, budget_, device_ ? &*device_ : nullptr, context.stop, context.program,
            context.live};
    }

private:
    using network_type = std::conditional_t<std::derived_from<Options, link_options>, network, classifier>;

    [[nodiscard]] static network_type network_of(const Options& how, const gneiss::dataset& data) {
        if constexpr (std::derived_from<Options, link_options>)
            return {how, how.links() ? &how : nullptr, input_of(data), data.manifest()};
        else if constexpr (requires { how.learned_columns(); })
            return {how, data, how.learned_columns(), how.reads_features()};
        else
            return {how, data};
    }
    [[nodiscard]] static bool reads_features(const Options& how) {
        if constexpr (requires { how.reads_features(); }) return how.reads_features();
        return true;
    }

protected:
    Options& flags_ = this->config_.flags;
    std::shared_ptr<const gneiss::dataset> data_; ///< in the partitions used for training
    network_type net_;
    gneiss::node_features features_;
    gneiss::bucket_store buckets_ = data_->buckets();
    gneiss::memory_budget budget_{flags_.memory->bytes};
    std::optional<node_classification> classes_; ///< labels and training nodes
    std::optional<device_network_parts> device_; ///< none: the CPU computes batches
};

} // namespace trainers
