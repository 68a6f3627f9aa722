// SPDX-License-Identifier: Apache-2.0
#include "kit/gnn/label_balance.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kit/gnn/node_metrics.hpp"

namespace trainers {

label_balance balance_of(const gneiss::dataset& data) {
    const gneiss::dataset_node_attributes& of = data.manifest().node_attributes;
    if (of.classes == 0 || of.target != gneiss::node_target_kind::classes) return {};
    std::vector<std::uint64_t> train(static_cast<std::size_t>(of.classes)), valid(train.size());
    const auto labels = data.labels();
    const auto splits = data.node_splits();
    for (std::size_t node = 0; node < labels.values().size(); ++node) {
        const std::int32_t label = labels.values()[node];
        if (label < 0 || static_cast<std::uint64_t>(label) >= of.classes) continue;
        const auto split = static_cast<gneiss::node_split>(splits.values()[node]);
        if (split == gneiss::node_split::train) ++train[static_cast<std::size_t>(label)];
        if (split == gneiss::node_split::valid) ++valid[static_cast<std::size_t>(label)];
    }
    const auto share = [](const std::vector<std::uint64_t>& counts) {
        std::uint64_t all = 0;
        for (const std::uint64_t count : counts) all += count;
        return all == 0 ? 0 : static_cast<double>(std::ranges::max(counts)) / static_cast<double>(all);
    };
    return {share(train), share(valid), of.classes == 2 && std::ranges::min(valid) != 0};
}

std::optional<std::string> selecting_metric(const gneiss::dataset& data) {
    const label_balance balance = balance_of(data);
    const std::vector<std::string> metrics = metrics_of(data.manifest());
    if (balance.ranks && std::ranges::find(metrics, "roc_auc") != metrics.end()) return "roc_auc";
    if (balance.train > 0.6) return "macro_f1";
    return std::nullopt;
}

} // namespace trainers
