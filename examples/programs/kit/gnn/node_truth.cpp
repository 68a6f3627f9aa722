// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/node_truth.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kit/gnn/class_weights.hpp"

namespace trainers {

target_scale::target_scale(const gneiss::dataset& data) {
    if (data.manifest().node_attributes.target != gneiss::node_target_kind::regression) return;
    const gneiss::mapped_targets targets = data.targets();
    const std::vector<gneiss::node_id> train = data.nodes_of(gneiss::node_split::train);
    std::vector<float> row(targets.columns());
    std::vector<double> sums(row.size()), squares(row.size()), counts(row.size());
    const auto each = [&](auto&& add) {
        for (const gneiss::node_id node : train) {
            targets.read(node, row);
            for (std::size_t c = 0; c < row.size(); ++c)
                if (!std::isnan(row[c])) add(c, static_cast<double>(row[c]));
        }
    };
    each([&](std::size_t c, double x) { sums[c] += x, ++counts[c]; });
    for (std::size_t c = 0; c < row.size(); ++c) sums[c] /= std::max(1.0, counts[c]);
    each([&](std::size_t c, double x) { squares[c] += (x - sums[c]) * (x - sums[c]); });
    for (std::size_t c = 0; c < row.size(); ++c) {
        const double deviation = std::sqrt(squares[c] / std::max(1.0, counts[c]));
        mean_.push_back(static_cast<float>(sums[c]));
        deviation_.push_back(deviation > 0 && std::isfinite(deviation) ? static_cast<float>(deviation) : 1.0F);
    }
}

void target_scale::scale(std::span<float> targets) const {
    for (std::size_t i = 0; !mean_.empty() && i < targets.size(); ++i)
        targets[i] = (targets[i] - mean_[i % mean_.size()]) / deviation_[i % mean_.size()];
}

void target_scale::unscale(std::span<float> outputs) const {
    for (std::size_t i = 0; !mean_.empty() && i < outputs.size(); ++i)
        outputs[i] = outputs[i] * deviation_[i % mean_.size()] + mean_[i % mean_.size()];
}

node_truth::node_truth(const gneiss::dataset& data)
    : data_(&data),
      kind_(data.manifest().node_attributes.target),
      columns_(static_cast<std::size_t>(data.manifest().node_attributes.classes)),
      labels_(data.labels()),
      targets_(data.targets()),
      scale_(data) {}

gneiss::gnn_task node_truth::task(std::function<void(std::uint32_t, std::vector<gneiss::node_id>&)> nodes,
    const std::optional<std::string>& class_weights, const gneiss::dataset& data,
    std::span<const gneiss::node_id> train) const {
    if (auto targets = target_task(class_weights, data, train))
        return gneiss::targeted_nodes{std::move(*targets), std::move(nodes)};
    return gneiss::classified_nodes{labels(), std::move(nodes), this->class_weights(class_weights, data, train)};
}

std::optional<gneiss::target_task> node_truth::target_task(const std::optional<std::string>& class_weights,
    const gneiss::dataset& data, std::span<const gneiss::node_id> train) const {
    if (kind_ == gneiss::node_target_kind::classes) return std::nullopt;
    const auto read = [this](std::span<const gneiss::node_id> nodes, std::span<float> out) {
        for (std::size_t i = 0; i < nodes.size(); ++i) targets_.read(nodes[i], out.subspan(i * columns_, columns_));
        scale_.scale(out);
    };
    const bool sigmoid = kind_ == gneiss::node_target_kind::multilabel;
    return gneiss::target_task{.targets = {.nodes = targets_.rows(), .columns = columns_, .read = read},
        .loss = sigmoid ? gneiss::target_loss::sigmoid : gneiss::target_loss::squared,
        .positive_weights = sigmoid ? positive_weights_of(class_weights, data, targets_, train) : std::vector<float>{}};
}

std::vector<float> node_truth::class_weights(
    const std::optional<std::string>& spec, const gneiss::dataset& data, std::span<const gneiss::node_id> train) const {
    if (kind_ != gneiss::node_target_kind::classes) return {};
    return class_weights_of(spec, data, labels(), train);
}

std::string classes_text(const gneiss::dataset_manifest& graph) {
    const gneiss::dataset_node_attributes& of = graph.node_attributes;
    return fmt::format("{} {}", of.classes, of.target == gneiss::node_target_kind::regression ? "targets" : "classes");
}

} // namespace trainers
