// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/assignment.hpp>

namespace gneiss {

/// Place of a batch in a group.
struct grouped_batch {
    std::size_t group = 0;  ///< of the round
    std::size_t member = 0; ///< in the group

    friend bool operator==(const grouped_batch&, const grouped_batch&) = default;
};

/// Batches of a round that share the rows of their nodes: up to `size` consecutive batches of one worker that the same
/// compute worker takes. With one worker and as many replicas, on one compute worker, those are the batches of a step.
/// Groups change no batch and no number. Plain data; 16 bytes a batch.
/// Source: Armada, section 5 (mini batch grouping).
class batch_groups {
public:
    batch_groups() = default;
    /// Replica r = number mod `replicas` computes on compute worker r mod `compute_workers`. Groups are numbered by
    /// their first batches. O(size of the round · workers). Throws errc::invalid_argument for a size of 0, no replica
    /// or no compute worker.
    batch_groups(
        const round_batches& numbers, std::uint32_t size, std::uint32_t replicas = 1, std::uint32_t compute_workers = 1)
        : places_(static_cast<std::size_t>(numbers.size())) {
        if (size == 0 || replicas == 0 || compute_workers == 0)
            throw error(errc::invalid_argument, "groups have at least one batch, of at least one replica and worker");
        std::map<std::pair<std::uint32_t, std::uint64_t>, std::size_t> open; // group by worker and compute worker
        for (std::uint64_t number = 0; number < numbers.size(); ++number) {
            std::size_t& group = open.try_emplace({numbers[number].worker, number % replicas % compute_workers},
                                         std::numeric_limits<std::size_t>::max())
                                     .first->second;
            if (group >= groups_.size() || groups_[group].size() == size) {
                group = groups_.size();
                groups_.emplace_back();
            }
            places_[static_cast<std::size_t>(number)] = {group, groups_[group].size()};
            groups_[group].push_back(number);
        }
    }

    /// Returns the number of groups.
    [[nodiscard]] std::size_t size() const noexcept { return groups_.size(); }
    /// Returns the numbers of a group's batches, ascending. Precondition: group < size().
    [[nodiscard]] std::span<const std::uint64_t> operator[](std::size_t group) const noexcept { return groups_[group]; }
    /// Returns the place of a batch. Precondition: it is one of the round.
    [[nodiscard]] const grouped_batch& of(std::uint64_t number) const noexcept {
        return places_[static_cast<std::size_t>(number)];
    }

private:
    std::vector<grouped_batch> places_;
    std::vector<std::vector<std::uint64_t>> groups_;
};

/// Numbers the distinct rows of several batches by first appearance. Reused from group to group. Memory: 16 to 28 bytes
/// a row. One thread.
class grouped_rows {
public:
    /// Removes all rows.
    void clear() {
        for (const node_id id : ids_) (void)positions_.erase(id);
        ids_.clear();
    }
    /// Adds the rows of a batch, and writes their positions in `ids()`. O(nodes), expected.
    ///
    /// \param positions  [nodes]
    void add(std::span<const node_id> nodes, std::span<std::uint32_t> positions) {
        if (ids_.size() + nodes.size() > capacity_) grow(2 * (ids_.size() + nodes.size()));
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            positions[i] = positions_.find(nodes[i]);
            if (positions[i] != no_slot) continue;
            positions[i] = static_cast<std::uint32_t>(ids_.size());
            (void)positions_.insert(nodes[i], positions[i]);
            ids_.push_back(nodes[i]);
        }
    }
    /// Returns the distinct rows, in the order of their first appearance.
    [[nodiscard]] std::span<const node_id> ids() const noexcept { return ids_; }

private:
    void grow(std::size_t capacity) {
        capacity_ = capacity;
        positions_ = slot_table(capacity, capacity, slot_table_kind::hashed);
        for (std::size_t i = 0; i < ids_.size(); ++i) (void)positions_.insert(ids_[i], static_cast<cache_slot>(i));
    }

    std::size_t capacity_ = 0;
    slot_table positions_{0, 0, slot_table_kind::hashed};
    std::vector<node_id> ids_;
};

} // namespace gneiss
