// SPDX-License-Identifier: Apache-2.0
// Deliveries of the groups of rounds to the cache of a compute worker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/dist/feature_cache.hpp>
#include <gneiss/dist/grouped_rows.hpp>
#include <gneiss/train/slots.hpp>

namespace gneiss::detail {

/// Plans deliveries a superbatch of groups at a time, in the order in which groups come: superbatches end with their
/// round. The cache carries over from epoch to epoch; an epoch that is resumed begins with an empty one.
///
/// `delivery_of` may be called by several threads, the rest by the driving thread.
class superbatch_deliveries {
public:
    /// Groups of a round.
    struct round {
        std::weak_ptr<const round> before{}; ///< groups that come before these
        /// Writes the distinct nodes of a group.
        std::function<void(std::size_t group, std::vector<node_id>& out)> nodes{};
        std::vector<std::size_t> order{}; ///< groups as their first batches come
        std::vector<std::size_t> place{}; ///< [groups] in `order`; those that do not come any more: size
        mutable std::size_t planned = 0;  ///< groups of `order` whose deliveries were planned
        mutable std::vector<std::shared_ptr<const row_delivery>> deliveries{}; ///< [order], of two superbatches
    };

    /// \param make  makes the planner of an empty cache; null: there is no cache, and nothing else is called
    superbatch_deliveries(std::function<delivery_planner()> make, std::uint64_t superbatch)
        : make_(std::move(make)),
          superbatch_(static_cast<std::size_t>(superbatch)) {}

    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(make_); }

    void begin_epoch(const epoch_start& start) {
        const std::scoped_lock lock(mutex_);
        if (!(planner_ && unplanned_ == 0 && start.from == batch_number{})) {
            fills_ += planner_ ? planner_->fills() : 0;
            planner_.emplace(make_());
        }
        last_.reset();
        unplanned_ = start.states.size() - start.from.state; // rounds, until their groups are known
    }
    /// Orders the groups of the next round, whose `nodes` are set, from batch `first` on.
    void begin_round(
        const std::shared_ptr<round>& of, const batch_groups& groups, std::uint64_t first, std::uint64_t batches) {
        const std::scoped_lock lock(mutex_);
        of->before = std::exchange(last_, of);
        of->place.assign(groups.size(), groups.size());
        for (std::uint64_t number = first; number < batches; ++number) {
            const std::size_t group = groups.of(number).group;
            if (of->place[group] != groups.size()) continue;
            of->place[group] = of->order.size();
            of->order.push_back(group);
        }
        of->deliveries.resize(of->order.size());
        unplanned_ += of->order.size();
        --unplanned_; // the round itself
    }
    /// Returns the delivery of a group. Throws errc::invalid_argument for one before the last two superbatches.
    [[nodiscard]] std::shared_ptr<const row_delivery> delivery_of(const round& of, std::size_t group) {
        const std::scoped_lock lock(mutex_);
        const std::size_t place = of.place[group];
        if (place < of.order.size()) plan_to(of, place + 1);
        if (place >= of.order.size() || !of.deliveries[place])
            throw error(errc::invalid_argument, "the delivery of a group of batches is no longer there");
        return of.deliveries[place];
    }

    /// Returns the bytes of ids that the planner got, and of its answers.
    [[nodiscard]] std::uint64_t id_bytes() const {
        const std::scoped_lock lock(mutex_);
        return id_bytes_;
    }
    /// Returns the rows that were sent into slots of the cache that its policy had filled before.
    [[nodiscard]] std::uint64_t fills() const {
        const std::scoped_lock lock(mutex_);
        return fills_ + (planner_ ? planner_->fills() : 0);
    }

private:
    /// Plans the first `count` deliveries of a round, after those of all earlier rounds.
    void plan_to(const round& of, std::size_t count) {
        if (of.planned >= count) return;
        if (const auto earlier = of.before.lock()) plan_to(*earlier, earlier->order.size());
        while (of.planned < count) plan_superbatch(of);
    }
    void plan_superbatch(const round& of) {
        const std::size_t first = of.planned, last = std::min(first + superbatch_, of.order.size());
        memory_trace trace;
        std::vector<node_id> nodes;
        for (std::size_t i = first; i < last; ++i) {
            of.nodes(of.order[i], nodes);
            trace.append(nodes);
        }
        if (planner_->needs_window()) planner_->begin_window(trace);
        for (std::size_t i = first; i < last; ++i) {
            auto one = std::make_shared<row_delivery>(planner_->next(trace.read(i - first, nodes)));
            id_bytes_ += 2 * one->from.size() * sizeof(node_id) + one->enter.size() * sizeof(entering_row);
            of.deliveries[i] = std::move(one);
            --unplanned_;
        }
        of.planned = last;
        const std::size_t old = first < superbatch_ ? 0 : first - superbatch_;
        for (std::size_t i = 0; i < old; ++i) of.deliveries[i].reset();
    }

    std::function<delivery_planner()> make_;
    std::size_t superbatch_;
    mutable std::mutex mutex_; // of all below, and of what rounds have
    std::optional<delivery_planner> planner_;
    std::weak_ptr<const round> last_;
    std::uint64_t unplanned_ = 0; // groups of the epoch, and rounds to come
    std::uint64_t fills_ = 0;     // of earlier planners
    std::uint64_t id_bytes_ = 0;
};

} // namespace gneiss::detail
