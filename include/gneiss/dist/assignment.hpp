// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/node_plan.hpp>

namespace gneiss {

/// Assigns partitions to logical batch workers for one epoch. A random split gives each worker a subset; subsets are
/// disjoint, and their sizes differ by at most one. A worker's first state loads as many partitions of its subset as
/// fit, in random order; each later state swaps one in, in the place of a random one. A partition's training nodes
/// train in the state that loads it. So each partition is read once an epoch, and each training node is a seed once.
///
/// \param partitions  p; some may have no training node
/// \param workers     logical workers W, at most p - pinned
/// \param resident    partitions that a worker holds at once, besides the pinned ones
/// \param pinned      leading partitions, of hubs, that all workers hold in every state; worker epoch mod W trains them
///
/// Returns [W] plans, without edge buckets: a worker samples within its resident partitions. The number of states of
/// two workers differs by at most one. Pure function of its arguments. Key (seed, plan, epoch, 17…): 17 the split, 18
/// the partitions that leave, by worker. Throws errc::invalid_argument for no worker, more workers than partitions, or
/// resident 0. O(p · resident).
/// Source: Armada, section 5 (partition assignment), which leaves open the partition that a swap evicts.
[[nodiscard]] inline std::vector<node_plan> assign_partitions(std::uint32_t partitions, std::uint32_t workers,
    std::uint32_t resident, std::uint64_t seed, std::uint64_t epoch, std::uint32_t pinned = 0) {
    if (workers == 0 || pinned > partitions || workers > partitions - pinned)
        throw error(errc::invalid_argument,
            std::to_string(workers) + " batch workers for " +
                std::to_string(partitions - std::min(pinned, partitions)) + " partitions: each needs at least one");
    if (resident == 0) throw error(errc::invalid_argument, "a batch worker holds at least one partition");
    const random_key key = random_key{seed, random_domain::plan}.with(epoch);
    std::vector<partition_id> order(partitions - pinned);
    std::iota(order.begin(), order.end(), pinned);
    shuffle(order, key.with(17));
    std::vector<node_plan> result(workers);
    for (std::uint32_t w = 0; w < workers; ++w) {
        node_plan& plan = result[w];
        random_stream leaving(key.with(18).with(w));
        std::vector<partition_id> held;
        const auto add_state = [&](std::vector<partition_id> loaded) {
            buffer_state state{.resident = held};
            for (partition_id hubs = 0; hubs < pinned; ++hubs) state.resident.push_back(hubs);
            std::ranges::sort(state.resident);
            std::ranges::sort(loaded);
            plan.states.push_back(std::move(state));
            plan.trained.push_back(std::move(loaded));
        };
        std::size_t next = w; // worker w has every W-th partition of the random order from w on
        for (; next < order.size() && held.size() < resident; next += workers) held.push_back(order[next]);
        add_state(held);
        for (; next < order.size(); next += workers) {
            held[static_cast<std::size_t>(leaving.below(held.size()))] = order[next];
            add_state({order[next]});
        }
    }
    for (partition_id hubs = pinned; hubs-- != 0;) {
        std::vector<partition_id>& first = result[static_cast<std::size_t>(epoch % workers)].trained.front();
        first.insert(first.begin(), hubs);
    }
    return result;
}

/// Returns the rounds of batch workers: state t of the result holds the partitions of state t of every worker that has
/// one. A worker's later rounds, if others have more states, are without it. O(partitions in all states · log).
[[nodiscard]] inline epoch_plan rounds_of(std::span<const node_plan> workers) {
    epoch_plan result;
    for (const node_plan& worker : workers) {
        if (worker.states.size() > result.size()) result.resize(worker.states.size());
        for (std::size_t t = 0; t < worker.states.size(); ++t) {
            std::vector<partition_id>& all = result[t].resident;
            all.insert(all.end(), worker.states[t].resident.begin(), worker.states[t].resident.end());
        }
    }
    for (buffer_state& round : result) {
        std::ranges::sort(round.resident);
        round.resident.erase(std::ranges::unique(round.resident).begin(), round.resident.end()); // pinned ones
    }
    return result;
}

/// Returns the rounds in which a worker has a state, as the owner of its partitions: all partitions of the round are
/// resident, and the edge buckets are those that begin in its own. O(own · resident) per round.
[[nodiscard]] inline epoch_plan owned_rounds(std::span<const node_plan> workers, std::uint32_t worker) {
    epoch_plan result = rounds_of(workers);
    const epoch_plan& own = workers[worker].states;
    result.resize(own.size());
    for (std::size_t t = 0; t < own.size(); ++t)
        for (const partition_id i : own[t].resident)
            for (const partition_id j : result[t].resident) result[t].edge_buckets.emplace_back(i, j);
    return result;
}

/// Place of a batch among those of the workers in a round.
struct worker_batch {
    std::uint32_t worker = 0; ///< below the number of workers
    std::uint64_t index = 0;  ///< among the worker's batches of the round

    friend bool operator==(const worker_batch&, const worker_batch&) = default;
};

/// Numbers the batches of a round: one of each worker in turn, without the workers that have none left. So consecutive
/// batches, which share a step if there are replicas, come from different workers, and all workers are busy for as long
/// as they have batches. Plain data; O(workers) memory.
class round_batches {
public:
    round_batches() = default;
    /// \param batches  [workers] number of batches of each
    explicit round_batches(std::vector<std::uint64_t> batches) : batches_(std::move(batches)) {}

    /// Returns the number of batches of all workers.
    [[nodiscard]] std::uint64_t size() const noexcept { return before(~std::uint64_t{0}); }
    /// Returns the number of batches of each worker.
    [[nodiscard]] std::span<const std::uint64_t> of_workers() const noexcept { return batches_; }

    /// Returns the worker of batch `number`, and its place there. O(workers · 64). Throws errc::out_of_range for a
    /// number that is not below `size()`.
    [[nodiscard]] worker_batch operator[](std::uint64_t number) const {
        if (number >= size())
            throw error(
                errc::out_of_range, "batch " + std::to_string(number) + " of a round of " + std::to_string(size()));
        std::uint64_t index = 0, last = number; // its turn: the last with at most `number` batches in earlier ones
        while (index < last) {
            const std::uint64_t middle = index + (last - index + 1) / 2;
            if (before(middle) <= number)
                index = middle;
            else
                last = middle - 1;
        }
        std::uint64_t left = number - before(index);
        std::uint32_t worker = 0;
        for (; batches_[worker] <= index || left != 0; ++worker)
            if (batches_[worker] > index) --left;
        return {worker, index};
    }

private:
    /// Returns the number of batches in the turns before `turn`.
    [[nodiscard]] std::uint64_t before(std::uint64_t turn) const noexcept {
        std::uint64_t sum = 0;
        for (const std::uint64_t of_worker : batches_) sum += std::min(of_worker, turn);
        return sum;
    }

    std::vector<std::uint64_t> batches_;
};

} // namespace gneiss
