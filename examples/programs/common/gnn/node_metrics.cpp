#include "common/gnn/node_metrics.hpp"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include <gneiss/model/classify.hpp>

namespace trainers {

namespace {

/// True if the scores of all nodes take at most 64 MiB.
bool keeps_scores(std::uint64_t nodes, std::uint64_t classes) {
    return classes == 0 || nodes <= (std::uint64_t{64} << 20) / sizeof(float) / classes;
}

} // namespace

gneiss::node_split split_named(const std::string& name) {
    const auto found = std::ranges::find(gneiss::node_split_names, name);
    return static_cast<gneiss::node_split>(found - gneiss::node_split_names.begin());
}

std::vector<std::string> metrics_of(const gneiss::dataset_manifest& graph) {
    std::vector<std::string> names{"accuracy", "macro_f1"};
    if (keeps_scores(graph.node_attributes.valid, graph.node_attributes.classes)) names.emplace_back("roc_auc");
    return names;
}

node_metrics::node_metrics(std::vector<gneiss::node_id> nodes, std::size_t classes, std::span<const gneiss::class_id> labels)
    : nodes_(std::move(nodes)), classes_(classes), labels_(labels), counts_(classes) {
    if (keeps_scores(nodes_.size(), classes)) scores_.resize(nodes_.size() * classes);
    if (classes <= most_counted) confusion_ = gneiss::confusion_matrix(classes);
}

void node_metrics::clear() {
    counts_ = gneiss::classification_metrics(classes_);
    confusion_ = gneiss::confusion_matrix(confusion_.classes());
    std::ranges::fill(scores_, 0.0F);
}

void node_metrics::add(gneiss::node_id node, std::span<const float> scores) {
    const auto at = std::ranges::lower_bound(nodes_, node);
    if (at == nodes_.end() || *at != node) return;
    const gneiss::class_id predicted = gneiss::predicted_class(scores);
    counts_.add(labels_[node], predicted);
    if (confusion_.classes() != 0) confusion_.add(labels_[node], predicted);
    if (!scores_.empty())
        std::ranges::copy(scores, scores_.begin() + (at - nodes_.begin()) * static_cast<std::ptrdiff_t>(classes_));
}

programs::metric_values node_metrics::values() const {
    if (nodes_.empty()) return {};
    programs::metric_values result{{"accuracy", counts_.accuracy()}, {"macro_f1", counts_.macro_f1()}};
    if (!scores_.empty()) {
        std::vector<gneiss::class_id> own;
        for (const gneiss::node_id node : nodes_) own.push_back(labels_[node]);
        result.emplace_back("roc_auc", gneiss::macro_roc_auc({scores_.data(), nodes_.size(), classes_}, own));
    }
    return result;
}

nlohmann::ordered_json node_metrics::per_class(const std::string& split, const gneiss::dataset& names) const {
    using json = nlohmann::ordered_json;
    if (nodes_.empty()) return nullptr;
    names.verify_class_names();
    json classes = json::array();
    for (gneiss::class_id c = 0; c < classes_; ++c)
        classes.push_back({{"class", names.class_label(static_cast<std::int32_t>(c))}, {"nodes", counts_.labeled(c)},
            {"predicted", counts_.predicted(c)}, {"precision", counts_.precision(c)}, {"recall", counts_.recall(c)}, {"f1", counts_.f1(c)}});
    json result{{"split", split}, {"classes", std::move(classes)}};
    if (confusion_.classes() == 0) return result;
    if (classes_ <= most_shown) {
        json rows = json::array();
        for (gneiss::class_id c = 0; c < classes_; ++c) rows.push_back(confusion_.row(c));
        result["confusion"] = std::move(rows);
        return result;
    }
    struct confused {
        std::uint64_t nodes;
        gneiss::class_id label, predicted;
    };
    std::vector<confused> pairs;
    for (gneiss::class_id c = 0; c < classes_; ++c)
        for (gneiss::class_id p = 0; p < classes_; ++p)
            if (c != p && confusion_.row(c)[p] != 0) pairs.push_back({confusion_.row(c)[p], c, p});
    const std::size_t shown = std::min(most_shown, pairs.size());
    std::ranges::partial_sort(pairs, pairs.begin() + static_cast<std::ptrdiff_t>(shown),
        [](const confused& a, const confused& b) { return std::tie(b.nodes, a.label, a.predicted) < std::tie(a.nodes, b.label, b.predicted); });
    json most = json::array();
    for (std::size_t i = 0; i < shown; ++i)
        most.push_back({{"class", names.class_label(static_cast<std::int32_t>(pairs[i].label))},
            {"predicted", names.class_label(static_cast<std::int32_t>(pairs[i].predicted))}, {"nodes", pairs[i].nodes}});
    result["confusions"] = std::move(most);
    return result;
}

} // namespace trainers
