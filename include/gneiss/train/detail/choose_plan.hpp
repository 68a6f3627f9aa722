// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/detail/compiled.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/train/batch_profile.hpp>
#include <gneiss/train/choose_plan.hpp>
#include <gneiss/train/detail/training_plan.hpp>

namespace gneiss {

namespace detail {

/// Returns the largest number of partitions that a state of the plan loads.
[[nodiscard]] inline std::uint32_t largest_swap(const epoch_plan& states) {
    std::uint64_t most = 0;
    for (std::size_t s = 1; s < states.size(); ++s)
        most = std::max(most, cost_of(std::span(states).subspan(s - 1, 2), std::uint64_t{0}).swaps);
    return static_cast<std::uint32_t>(most);
}

/// Returns what a search compares, see `choose_plan`.
[[nodiscard]] inline std::uint64_t searched_reads(const training_plan& plan) {
    const epoch_plan states = plan.order(0);
    const std::uint64_t reads = plan.reads(states);
    if (states.empty() || trains_edges(states)) return reads;
    epoch_plan whole{{.resident = {}, .edge_buckets = {}}};
    for (partition_id p = 0; p < plan.partitioning.partitions; ++p) whole.front().resident.push_back(p);
    const std::uint64_t all = plan.reads(whole);
    if (states.size() == 1) return all + all - std::min(all, reads);
    std::uint64_t held = 0; // partitions, over all states
    for (const buffer_state& state : states) held += state.resident.size();
    const double absent =
        1 - static_cast<double>(held) / static_cast<double>(states.size() * plan.partitioning.partitions);
    return 2 * all + static_cast<std::uint64_t>(16 * absent * static_cast<double>(all));
}

/// Copies what was decided beyond the choice.
inline void keep_decisions(training_plan& plan, const training_plan& before) {
    plan.spare = before.spare;
    plan.disk_bytes = before.disk_bytes;
    plan.runner_up = before.runner_up;
    plan.in_memory_bytes = before.in_memory_bytes;
}

/// The choice of `choose_plan`.
class plan_choosing {
public:
    plan_choosing(const given_plan& given, const row_partitioning& stored, const std::vector<std::string>& orders,
        const plan_maker& make)
        : given_(given),
          orders_(orders),
          make_(make),
          nodes_(stored.nodes),
          partitions_(given.partitions.value_or(stored.partitions)),
          one_order_(given.order && *given.order != "memory") {}

    [[nodiscard]] training_plan operator()() const {
        const bool wants_memory = given_.in_memory.value_or(false);
        std::optional<training_plan> best;
        std::uint64_t in_memory_bytes = 0;
        if (wants_memory || (!given_.in_memory && !given_.buffer && !given_.logical)) {
            best = in_memory();
            in_memory_bytes = best->memory_bytes();
        }
        if (!best || (!best->fits() && !wants_memory)) best = buffered();
        if (best->fits()) load_given_buffers_ahead(*best);
        best->in_memory_bytes = in_memory_bytes;
        return std::move(*best);
    }

private:
    /// Returns the plan with all rows in memory, with rows of fewer batches if it does not fit otherwise.
    [[nodiscard]] training_plan in_memory() const {
        const std::uint32_t slots =
            std::min(given_.buffer.value_or(one_order_ ? std::max(2U, partitions_ / 4) : partitions_), partitions_);
        const std::vector<std::string> orders = given_.order ? std::vector{*given_.order}
            : slots < partitions_                            ? orders_
                                                             : std::vector<std::string>{"memory"};
        plan_choice choice{.partitions = partitions_, .slots = slots, .in_memory = true, .prefetch = given_.prefetch};
        std::uint64_t fewest = ~std::uint64_t{0};
        for (const std::string& order : orders) { // an order is as good as one that swaps up to an eighth less
            plan_choice of = choice;
            of.order = order;
            const std::uint64_t swaps = cost_of(make_.states(of).order(0), std::uint64_t{0}).swaps;
            if (fewest <= swaps + swaps / 8) continue;
            fewest = swaps;
            choice = of;
        }
        std::optional<training_plan> plan;
        for (const bool sparing : {false, true})
            for (const bool moves : make_.moves) {
                const bool open = make_.moves.size() != 1;
                if (open && moves && (slots == partitions_ || partitions_ <= make_.local_partitions)) continue;
                choice.sparing = sparing;
                choice.moves = moves;
                plan = make_.with(choice, given_.memory);
                if (plan->fits()) return std::move(*plan);
            }
        return std::move(*plan);
    }

    /// Returns the plan that a search finds for a buffer.
    [[nodiscard]] training_plan buffered() const {
        plan_request request{.partitions = partitions_,
            .more_partitions = given_.more_partitions && !given_.partitions,
            .nodes = nodes_,
            .buffer = given_.buffer,
            .logical = given_.logical,
            .orders = one_order_ ? std::vector{*given_.order} : orders_,
            .prefetch = {given_.prefetch},
            .tuned = make_.tuned ? make_.tuned() : std::vector<plan_choice>{},
            .moves = make_.moves,
            .local_partitions = make_.local_partitions,
            .memory = given_.memory};
        // Other orders save nothing if an eighth of the nodes in the most accurate one reads no longer than an epoch
        // computes. That does not depend on the memory, so that more memory never reads more.
        const plan_choice eighth{.partitions = 64, .slots = 8, .in_memory = false, .order = request.orders.front()};
        if (!one_order_ && request.orders.size() > 1 && nodes_ >= eighth.partitions &&
            searched_reads(make_.states(eighth)) <= make_.hidden_bytes)
            request.orders.resize(1);
        const training_plan first = make_.states({.partitions = partitions_,
            .slots = std::min(2U, partitions_),
            .in_memory = false,
            .order = request.orders.front()});
        // Swapped rows are read and written, so a slot that does both saves some.
        if (given_.prefetch == "auto" && !given_.buffer && first.layout.floats() != 0 && trains_edges(first.order(0)))
            request.prefetch.emplace_back("1");
        const found_plan found = search_plan(request,
            {[&](const plan_choice& choice) { return searched_reads(make_.states(choice)); },
                [&](const plan_choice& choice) { return make_.with(choice, 0).memory_bytes(); }});
        training_plan best = make_.with(found.best.choice, given_.memory);
        if (found.runner_up) {
            const training_plan other = make_.states(found.runner_up->choice);
            const epoch_plan states = other.order(0);
            best.runner_up =
                training_plan::alternative{found.runner_up->choice, row_cost(other, states).swaps, other.reads(states)};
        }
        return best;
    }

    /// Loads all swaps of a given buffer while a state trains, if memory allows.
    void load_given_buffers_ahead(training_plan& best) const {
        if (!given_.buffer || given_.prefetch != "auto" || best.keeps_all() || best.layout.floats() == 0) return;
        const std::uint32_t swap = largest_swap(best.order(0));
        if (swap <= best.prefetch) return;
        plan_choice ahead = best.choice;
        ahead.prefetch = std::to_string(swap);
        if (training_plan more = make_.with(ahead, given_.memory); more.fits()) best = std::move(more);
    }

    const given_plan& given_;
    const std::vector<std::string>& orders_;
    const plan_maker& make_;
    std::uint64_t nodes_;
    std::uint32_t partitions_;
    bool one_order_; ///< the given order is for a buffer of some partitions
};

} // namespace detail

GNEISS_INLINE training_plan choose_plan(const given_plan& given, const row_partitioning& stored,
    const std::vector<std::string>& default_orders, const plan_maker& make) {
    return detail::plan_choosing(given, stored, default_orders, make)();
}

GNEISS_INLINE training_plan choose_largest_states(std::uint32_t partitions, std::uint32_t least, std::uint64_t memory,
    const std::function<training_plan(std::uint32_t)>& with) {
    training_plan whole = with(partitions);
    if (whole.memory_bytes() <= memory || least >= partitions) return whole;
    const found_plan found = search_plan({.partitions = partitions,
                                             .more_partitions = false,
                                             .least_buffer = least,
                                             .orders = {"macro-batches"},
                                             .memory = memory},
        {.reads = [&](const plan_choice& c) { return std::uint64_t{partitions - c.slots}; }, // left out of a state
            .bytes = [&](const plan_choice& c) { return with(c.slots).memory_bytes(); }});
    training_plan plan = with(found.best.choice.slots);
    plan.in_memory_bytes = whole.memory_bytes();
    return plan;
}

GNEISS_INLINE training_plan choose_again(const given_plan& given, const training_plan& before, const plan_maker& make) {
    const auto with = [&](const plan_choice& choice) { return make.with(choice, given.memory); };
    plan_choice choice = before.choice;
    training_plan plan = with(choice);
    // If buckets are larger than estimated, fewer are resident, down to the rows of one batch.
    for (; !plan.fits() && !given.buffer && !given.logical && choice.slots > 2; plan = with(choice)) --choice.slots;
    if (!plan.fits() && !choice.sparing) {
        choice.sparing = true;
        plan = with(choice);
    }
    if (!plan.fits()) throw over_budget(plan.budget, plan.memory.parts());
    detail::keep_decisions(plan, before);
    return plan;
}

GNEISS_INLINE training_plan same_plan(const training_plan& before, const plan_maker& make) {
    training_plan plan = make.with(before.choice, before.budget);
    detail::keep_decisions(plan, before);
    return plan;
}

GNEISS_INLINE plan_choice stored_choice(const training_plan& plan, std::uint32_t stored) {
    plan_choice choice = plan.choice;
    if (choice.partitions == stored) return choice;
    const std::uint64_t share = (std::uint64_t{plan.slots} * stored + choice.partitions - 1) / choice.partitions;
    choice.partitions = stored;
    choice.slots = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max<std::uint64_t>(share, 2), stored));
    if (choice.slots == stored) choice.order = "memory";
    return choice;
}

GNEISS_INLINE training_plan choose_by_profile(const std::function<training_plan(const seen_batches&)>& choose,
    const std::function<training_plan(const training_plan&, const seen_batches&)>& again,
    const std::function<seen_batches(const training_plan&)>& profile) {
    const training_plan most = choose(batch_profile{});
    const seen_batches seen = profile(most);
    training_plan found = choose(seen);
    if (!seen || (found.partitioning.partitions == most.partitioning.partitions && found.slots == most.slots))
        return found;
    if (const seen_batches own = profile(found)) {
        training_plan exact = again(found, own);
        if (exact.fits()) return exact;
    }
    return found;
}

} // namespace gneiss
