// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>

namespace gneiss::detail {

/// Contents and free room of each part: weight, and nodes of each label if labels have caps. Memory: 8 bytes per part,
/// and 8 per part and label. Reading is thread-safe.
class partition_capacity {
public:
    /// Starts with empty parts. `arcs`: of the graph to be partitioned.
    partition_capacity(const partition_request& request, std::uint64_t nodes, edge_index arcs)
        : cap_(max_weight(total_weight(request.balance, nodes, arcs), request.parts, request.imbalance)),
          weights_(request.parts) {
        if (request.labels.empty() || request.label_cap == 0) return;
        labels_ = request.labels;
        caps_ = label_caps(label_counts(labels_), request.parts, request.label_cap);
        counts_.resize(caps_.size() * request.parts);
    }

    /// Adds the nodes of given parts, with these weights. Precondition: empty.
    void fill(std::vector<std::uint64_t> weights, std::span<const partition_id16> parts) {
        weights_ = std::move(weights);
        if (caps_.empty()) return;
        for (std::size_t v = 0; v < parts.size(); ++v)
            if (parts[v] != no_partition) ++counts_[parts[v] * caps_.size() + label_of(static_cast<node_id>(v))];
    }

    [[nodiscard]] std::uint64_t weight(partition_id16 p) const noexcept { return weights_[p]; }
    [[nodiscard]] std::size_t label_of(node_id v) const noexcept {
        return labels_[v] == unlabeled ? caps_.size() - 1 : labels_[v];
    }
    [[nodiscard]] std::uint64_t label_count(partition_id16 p, std::size_t label) const noexcept {
        return counts_[p * caps_.size() + label];
    }

    /// True if node v may enter a part that it is not in.
    [[nodiscard]] bool fits(partition_id16 p, node_id v, std::uint64_t weight) const noexcept {
        return weights_[p] + weight <= cap_ && open(p, v);
    }
    [[nodiscard]] bool open(partition_id16 p, node_id v) const noexcept {
        return caps_.empty() || label_count(p, label_of(v)) < caps_[label_of(v)];
    }
    /// True if any part exceeds a cap. O(parts · labels).
    [[nodiscard]] bool over() const noexcept {
        for (const std::uint64_t weight : weights_)
            if (weight > cap_) return true;
        for (std::size_t i = 0; i < counts_.size(); ++i)
            if (counts_[i] > caps_[i % caps_.size()]) return true;
        return false;
    }

    void enter(partition_id16 p, node_id v, std::uint64_t weight) noexcept {
        weights_[p] += weight;
        if (!caps_.empty()) ++counts_[p * caps_.size() + label_of(v)];
    }
    void leave(partition_id16 p, node_id v, std::uint64_t weight) noexcept {
        weights_[p] -= weight;
        if (!caps_.empty()) --counts_[p * caps_.size() + label_of(v)];
    }

private:
    std::uint64_t cap_;
    std::vector<std::uint64_t> weights_; // [parts]
    std::span<const class_id> labels_;
    std::vector<std::uint64_t> caps_;   // [labels + 1] or empty
    std::vector<std::uint64_t> counts_; // [parts, labels + 1]
};

} // namespace gneiss::detail
