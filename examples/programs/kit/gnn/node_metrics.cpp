// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/node_metrics.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <tuple>
#include <utility>

#include <gneiss/model/classify.hpp>

#include "kit/cli/units.hpp"
#include "kit/run/divergence.hpp"

namespace trainers {

using gneiss::node_target_kind;

namespace {

/// True if the scores of all nodes take at most 64 MiB.
bool keeps_scores(std::uint64_t nodes, std::uint64_t columns) {
    return columns == 0 || nodes <= (std::uint64_t{64} << 20) / sizeof(float) / columns;
}

} // namespace

gneiss::node_split split_named(const std::string& name) {
    const auto found = std::ranges::find(gneiss::node_split_names, name);
    return static_cast<gneiss::node_split>(found - gneiss::node_split_names.begin());
}

std::string scope_of_nodes(std::uint64_t nodes, const std::string& split) {
    return programs::human_exact(nodes) + " " + split + " nodes";
}

std::vector<std::string> metrics_of(const gneiss::dataset_manifest& graph) {
    const gneiss::dataset_node_attributes& of = graph.node_attributes;
    if (of.target == node_target_kind::regression) return {"r2", "mse", "mae"};
    const bool labels = of.target == node_target_kind::multilabel;
    std::vector<std::string> names{labels ? "micro_f1" : "accuracy", "macro_f1"};
    if (!keeps_scores(of.valid, of.classes)) return names;
    names.emplace_back("roc_auc");
    if (labels) names.emplace_back("average_precision");
    return names;
}

node_metrics::node_metrics(std::vector<gneiss::node_id> nodes, const node_truth& truth)
    : nodes_(std::move(nodes)),
      truth_(&truth),
      targets_(truth.columns()) {
    if (truth.kind() == node_target_kind::classes && truth.columns() <= most_counted)
        confusion_ = gneiss::confusion_matrix(truth.columns());
    if (truth.kind() != node_target_kind::regression && keeps_scores(nodes_.size(), truth.columns()))
        scores_.resize(nodes_.size() * truth.columns());
    clear();
}

gneiss::memory_need node_metrics::need(const gneiss::dataset_manifest& graph) {
    const gneiss::dataset_node_attributes& of = graph.node_attributes;
    if (of.target == node_target_kind::regression) return {"score tables"};
    const bool labels = of.target == node_target_kind::multilabel;
    const std::uint64_t pairs =
        labels || of.classes > most_counted ? 0 : of.classes * of.classes; // of a confusion matrix
    std::uint64_t tables = 0, work = 0;                                    // of both splits; of one at a time
    for (const std::uint64_t nodes : {of.valid, of.test}) {
        tables += pairs * sizeof(std::uint64_t);
        work = std::max(work, 48 * std::min(nodes, pairs)); // 16 bytes for each pair that occurs, in a list that grows
        if (!keeps_scores(nodes, of.classes)) continue;
        tables += nodes * of.classes * sizeof(float);
        // Several labels: targets, and scores of a class in the order of nodes and sorted. One class: its id, the odds
        // of all classes, and those of one in both orders.
        work = std::max(work, nodes * (labels ? of.classes * sizeof(float) + 24 : 52));
    }
    return {"score tables", tables + work};
}

void node_metrics::clear() {
    const std::size_t columns = truth_->columns();
    const node_target_kind kind = truth_->kind();
    classes_ = gneiss::classification_metrics(kind == node_target_kind::classes ? columns : 0);
    confusion_ = gneiss::confusion_matrix(confusion_.classes());
    labels_ = gneiss::multilabel_metrics(kind == node_target_kind::multilabel ? columns : 0);
    numbers_ = gneiss::regression_metrics(kind == node_target_kind::regression ? columns : 0);
    std::ranges::fill(scores_, 0.0F);
}

void node_metrics::add(gneiss::node_id node, std::span<const float> outputs) {
    const auto at = std::ranges::lower_bound(nodes_, node);
    if (at == nodes_.end() || *at != node) return;
    check_outputs(truth_->data(), node, outputs);
    if (!scores_.empty())
        std::ranges::copy(
            outputs, scores_.begin() + (at - nodes_.begin()) * static_cast<std::ptrdiff_t>(truth_->columns()));
    if (truth_->kind() == node_target_kind::classes) {
        const gneiss::class_id label = truth_->labels()[node], predicted = gneiss::predicted_class(outputs);
        classes_.add(label, predicted);
        if (confusion_.classes() != 0) confusion_.add(label, predicted);
        return;
    }
    truth_->targets().read(node, targets_);
    if (truth_->kind() == node_target_kind::multilabel) return labels_.add(outputs, targets_);
    outputs_.assign(outputs.begin(), outputs.end());
    truth_->scale().unscale(outputs_);
    numbers_.add(outputs_, targets_);
}

programs::metric_values node_metrics::values() const {
    if (nodes_.empty()) return {};
    programs::metric_values result;
    const auto put = [&](const char* name, std::optional<double> value) {
        if (value) result.emplace_back(name, *value);
    };
    const std::size_t columns = truth_->columns();
    const gneiss::matrix_view<const float> scores(scores_.data(), scores_.empty() ? 0 : nodes_.size(), columns);
    if (truth_->kind() == node_target_kind::regression) {
        put("r2", numbers_.r2());
        put("mse", numbers_.mse());
        put("mae", numbers_.mae());
        return result;
    }
    if (truth_->kind() == node_target_kind::multilabel) {
        put("micro_f1", labels_.micro_f1());
        put("macro_f1", labels_.macro_f1());
        if (scores_.empty()) return result;
        std::vector<float> targets(nodes_.size() * columns);
        for (std::size_t i = 0; i < nodes_.size(); ++i)
            truth_->targets().read(nodes_[i], std::span(targets).subspan(i * columns, columns));
        if (const auto ranking = gneiss::multilabel_ranking::of(scores, {targets.data(), nodes_.size(), columns})) {
            put("roc_auc", ranking->roc_auc);
            put("average_precision", ranking->average_precision);
        }
        return result;
    }
    put("accuracy", classes_.accuracy());
    put("macro_f1", classes_.macro_f1());
    if (!scores_.empty()) {
        std::vector<gneiss::class_id> own;
        own.reserve(nodes_.size());
        for (const gneiss::node_id node : nodes_) own.push_back(truth_->labels()[node]);
        put("roc_auc", gneiss::macro_roc_auc(scores, own));
    }
    return result;
}

nlohmann::ordered_json node_metrics::per_class(const std::string& split, const gneiss::dataset& names) const {
    using json = nlohmann::ordered_json;
    if (nodes_.empty()) return nullptr;
    names.verify_class_names();
    json rows = json::array();
    for (gneiss::class_id c = 0; c < truth_->columns(); ++c) {
        const std::string name = names.class_label(static_cast<std::int32_t>(c));
        const auto with = [](json row, std::initializer_list<std::pair<const char*, std::optional<double>>> values) {
            for (const auto& [key, value] : values)
                if (value) row[key] = *value;
            return row;
        };
        const auto of = [&](const auto& counts) {
            return with({{"class", name}, {"nodes", counts.labeled(c)}, {"predicted", counts.predicted(c)}},
                {{"precision", counts.precision(c)}, {"recall", counts.recall(c)}, {"f1", counts.f1(c)}});
        };
        switch (truth_->kind()) {
        case node_target_kind::classes: rows.push_back(of(classes_)); break;
        case node_target_kind::multilabel: rows.push_back(of(labels_)); break;
        case node_target_kind::regression:
            rows.push_back(with({{"target", name}, {"nodes", numbers_.count(c)}},
                {{"r2", numbers_.r2(c)}, {"mse", numbers_.mse(c)}, {"mae", numbers_.mae(c)}}));
        }
    }
    json result{{"split", split}, {"classes", std::move(rows)}};
    if (confusion_.classes() != 0) add_confusions(result, names);
    return result;
}

void node_metrics::add_confusions(nlohmann::ordered_json& to, const gneiss::dataset& names) const {
    using json = nlohmann::ordered_json;
    const auto classes = static_cast<gneiss::class_id>(confusion_.classes());
    if (classes <= most_shown) {
        json rows = json::array();
        for (gneiss::class_id c = 0; c < classes; ++c) {
            const auto row = confusion_.row(c);
            rows.push_back(std::vector<std::uint64_t>(row.begin(), row.end()));
        }
        to["confusion"] = std::move(rows);
        return;
    }
    struct confused {
        std::uint64_t nodes;
        gneiss::class_id label, predicted;
    };
    std::vector<confused> pairs;
    for (gneiss::class_id c = 0; c < classes; ++c)
        for (gneiss::class_id p = 0; p < classes; ++p)
            if (c != p && confusion_.row(c)[p] != 0) pairs.push_back({confusion_.row(c)[p], c, p});
    const std::size_t shown = std::min(most_shown, pairs.size());
    std::ranges::partial_sort(
        pairs, pairs.begin() + static_cast<std::ptrdiff_t>(shown), [](const confused& a, const confused& b) {
            return std::tie(b.nodes, a.label, a.predicted) < std::tie(a.nodes, b.label, b.predicted);
        });
    json most = json::array();
    for (std::size_t i = 0; i < shown; ++i)
        most.push_back({{"class", names.class_label(static_cast<std::int32_t>(pairs[i].label))},
            {"predicted", names.class_label(static_cast<std::int32_t>(pairs[i].predicted))},
            {"nodes", pairs[i].nodes}});
    to["confusions"] = std::move(most);
}

} // namespace trainers
