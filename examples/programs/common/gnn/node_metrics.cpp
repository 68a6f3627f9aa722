#include "common/gnn/node_metrics.hpp"

#include <algorithm>
#include <utility>

#include <gneiss/model/classify.hpp>

namespace trainers {

node_metrics::node_metrics(std::vector<gneiss::node_id> nodes, std::size_t classes, std::span<const gneiss::class_id> labels)
    : nodes_(std::move(nodes)), classes_(classes), labels_(labels), counts_(classes) {
    constexpr std::size_t most = std::size_t{64} << 20;
    if (nodes_.size() * classes * sizeof(float) <= most) scores_.resize(nodes_.size() * classes);
}

void node_metrics::clear() {
    counts_ = gneiss::classification_metrics(classes_);
    std::ranges::fill(scores_, 0.0F);
}

void node_metrics::add(gneiss::node_id node, std::span<const float> scores) {
    const auto at = std::ranges::lower_bound(nodes_, node);
    if (at == nodes_.end() || *at != node) return;
    counts_.add(labels_[node], gneiss::predicted_class(scores));
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

} // namespace trainers
