// SPDX-License-Identifier: Apache-2.0
// Chooses the plan of a run: what is given is kept, the rest is searched within the memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/train/plan_search.hpp>
#include <gneiss/train/training_plan.hpp>

namespace gneiss {

struct batch_profile;

/// Makes the plans of a run.
struct plan_maker {
    /// Returns the layout, the order and the reads of a choice's plan, without its memory.
    std::function<training_plan(const plan_choice&)> states;
    /// Returns the plan of a choice in a memory [bytes], with all its parts, whether it fits or not.
    std::function<training_plan(const plan_choice&, std::uint64_t)> with;
    std::function<std::vector<plan_choice>()> tuned{}; ///< as in `plan_request`, like the following
    std::vector<bool> moves{false};                    ///< as in `plan_request`
    std::uint32_t local_partitions = 0;                ///< as in `plan_request`
    std::uint64_t hidden_bytes = 0;                    ///< that an epoch reads while it computes
};

/// Given parts of a plan; the rest is chosen.
struct given_plan {
    std::optional<bool> in_memory{};                 ///< all rows are resident, or a buffer holds some
    std::optional<std::uint32_t> partitions{};       ///< absent: the stored ones, or more
    bool more_partitions = true;                     ///< more partitions than the stored ones may be made
    std::optional<std::uint32_t> buffer{};           ///< partitions per state
    std::optional<std::uint32_t> logical{};          ///< COMET's logical partitions, two of which are resident
    std::optional<std::string> order{};              ///< order of states; "memory": one state
    std::string prefetch = "auto";                   ///< slots to load ahead: a number, "off", or "auto"
    std::uint64_t memory = memory_budget::unlimited; ///< limit [bytes]
};

/// Chooses store, partitions, buffer, slots to load ahead and order within the memory: all in memory if that fits; else
/// by `search_plan`, with the runner-up. Returns the smallest plan if none fits, see `training_plan::fits`.
///
/// Epochs of edges are compared by the bytes that they read. A state of a node task is the neighborhood that samplers
/// see, so an epoch of one state is better the larger it is, and better than one of several, which are better the
/// larger they are, too: no epoch reads a partition twice, so larger states read more edges only because they train on
/// more.
/// \param stored          partitions as stored
/// \param default_orders  orders of a buffer of some partitions, the most accurate one in front
/// Cost: some hundred calls of `make`.
[[nodiscard]] training_plan choose_plan(const given_plan& given, const row_partitioning& stored,
    const std::vector<std::string>& default_orders, const plan_maker& make);
/// Returns the plan with the largest states that fit: for trainers whose samplers see one state at a time, whatever an
/// epoch reads (thesis, chapter 4). The smallest plan if none fits.
///
/// \param least  fewest partitions of a state
/// \param with   with(slots) returns the plan of states of so many partitions
[[nodiscard]] training_plan choose_largest_states(std::uint32_t partitions, std::uint32_t least, std::uint64_t memory,
    const std::function<training_plan(std::uint32_t)>& with);
/// Returns the exact plan of the same choice, once the partitions are those of the plan. If it exceeds the estimate,
/// fewer partitions are resident, unless they are given. Throws over_budget with the parts of the smallest plan.
[[nodiscard]] training_plan choose_again(const given_plan& given, const training_plan& before, const plan_maker& make);
/// Returns the exact plan of the same choice, whether it fits or not.
[[nodiscard]] training_plan same_plan(const training_plan& before, const plan_maker& make);
/// Returns a choice with `stored` partitions, whose states have at least the share of the nodes that the plan's have.
[[nodiscard]] plan_choice stored_choice(const training_plan& plan, std::uint32_t stored);

/// Batches of a state, or none.
using seen_batches = std::optional<batch_profile>;
/// Number of batches that a profile draws.
inline constexpr std::uint64_t profiled_batches = 8;

/// Chooses a plan by the batches that its first state draws: first for batches of no size, which leaves as much memory
/// for the other parts as any profile can; then by the batches of that plan. The charge is that of the chosen plan's
/// own batches.
///
/// \param choose   choose(seen) returns the best plan for batches as seen, or by upper bounds if none were
/// \param again    again(plan, seen) returns the plan of the same choice
/// \param profile  profile(plan) draws batches of the plan's first state; none if it has none, or bounds are wanted
[[nodiscard]] training_plan choose_by_profile(const std::function<training_plan(const seen_batches&)>& choose,
    const std::function<training_plan(const training_plan&, const seen_batches&)>& again,
    const std::function<seen_batches(const training_plan&)>& profile);

} // namespace gneiss

#ifndef GNEISS_COMPILED
#include <gneiss/train/detail/choose_plan.hpp>
#endif
