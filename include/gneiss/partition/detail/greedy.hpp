// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/adjacency_stream.hpp>
#include <gneiss/partition/assignment.hpp>
#include <gneiss/partition/concepts.hpp>
#include <gneiss/partition/detail/load_table.hpp>
#include <gneiss/partition/detail/neighbor_counts.hpp>
#include <gneiss/partition/detail/pass_checkpoint.hpp>

namespace gneiss::detail {

/// Trade-off between neighbors and balance in a streaming partitioner.
///
/// Meaning: `r.load_penalty(group, load)` is the penalty of a part with that load and rises with the load. `r.score(n,
/// load_penalty)` is the score of a part with n of the node's neighbors: it rises with n, falls or stays with the
/// penalty, and is −∞ for an infinite penalty and n > 0.
template <class R>
concept greedy_rule =
    requires(const R& r, std::size_t group, std::uint64_t load, std::uint32_t n, double load_penalty) {
        { r.load_penalty(group, load) } -> std::same_as<double>;
        { r.score(n, load_penalty) } -> std::same_as<double>;
    };

/// Groups of nodes that are balanced separately, and the caps of parts.
struct greedy_limits {
    std::uint64_t cap = 0;                   ///< maximum weight of a part
    std::span<const class_id> labels{};      ///< [nodes], or empty: all nodes are one group, whose load is its weight
    std::vector<std::uint64_t> counts{};     ///< [groups] nodes of each label, unlabeled nodes last
    std::vector<std::uint64_t> label_caps{}; ///< [groups] maximum nodes of a label in a part, or empty: unlimited

    [[nodiscard]] std::size_t groups() const noexcept { return labels.empty() ? 1 : counts.size(); }
};

/// Engine of the streaming partitioners: places each node where its score is highest.
///
/// Among the parts that the node fits into, it chooses the highest score, then the lowest penalty, then the lowest
/// number. The result is that of a scan of all parts, but only the parts of the neighbors and the part of lowest
/// penalty are examined; no other part can be better than the latter. In later passes a node first leaves its part.
///
/// If every node weighs 1, caps are exact. If labels are also capped, each part reserves ⌊n/k⌋ or ⌈n/k⌉ places per
/// label, dealt round-robin so that they sum to at most ⌈N/k⌉; the rest of the cap is shared. So a node always finds a
/// part that is open to its label and has room.
///
/// If nodes weigh their lists, the cap on weight holds before those on labels. Where no part open to its label has
/// room, a node goes to the part with room that has the fewest nodes of its label, then to the first. Where no part has
/// room, it goes to the lightest part; a node that weighs at most imbalance · W/k always finds room.
///
/// A full part is removed from the set of a group when it is found at its head, and restored to those sets when a node
/// leaves it for good.
///
/// Cost of a pass: O(arcs + nodes log parts). With caps and many labels, a node that leaves a full part pays O(log
/// parts) for each label that met it. With weights, O(parts) if the part of lowest penalty has too little room.
/// Memory: `greedy_bytes`. One thread.
template <greedy_rule Rule>
class greedy_engine {
public:
    greedy_engine(const partition_request& request, std::uint64_t nodes, Rule rule, greedy_limits limits)
        : balance_(request.balance),
          parts_(request.parts),
          rule_(std::move(rule)),
          limits_(std::move(limits)),
          part_(huge_page_vector<partition_id16>(static_cast<std::size_t>(nodes))),
          loads_(limits_.groups() * parts_),
          occupied_(parts_),
          parked_(parts_),
          load_table_(limits_.groups(), parts_),
          counts_(parts_) {
        std::ranges::fill(part_, no_partition);
        reserving_ = balance_ == balance_by::nodes && !limits_.label_caps.empty();
        for (std::size_t g = 0, first = 0; reserving_ && g < limits_.groups(); ++g) {
            dealt_from_.push_back(static_cast<std::uint32_t>(first));
            first = static_cast<std::size_t>((first + limits_.counts[g]) % parts_);
            for (std::uint32_t p = 0; p < parts_; ++p) occupied_[p] += reserved(g, static_cast<partition_id16>(p));
        }
    }

    /// Starts from these parts instead of none. They may exceed caps; one pass repairs that. One pass of the stream if
    /// nodes weigh their lists. Precondition: [nodes], below the number of parts.
    template <adjacency_stream Stream>
    void start_from(Stream& stream, std::span<const partition_id16> parts) {
        std::ranges::copy(parts, part_.begin());
        const auto weights = part_weights(stream, part_, parts_, balance_);
        for (std::size_t v = 0; v < part_.size(); ++v) ++load(group_of(v), part_[v]);
        for (std::uint32_t i = 0; i < parts_; ++i) {
            const auto p = static_cast<partition_id16>(i);
            if (limits_.labels.empty()) load(0, p) = weights[p];
            if (!reserving_) occupied_[p] = weights[p];
            for (std::size_t g = 0; g < limits_.groups(); ++g) {
                if (reserving_) occupied_[p] += load(g, p) - std::min(load(g, p), reserved(g, p));
                load_table_.set(g, p, rule_.load_penalty(g, load(g, p)));
            }
        }
    }

    /// Places every node of the stream once, in stream order. `on_chunk(nodes done)` may throw.
    template <adjacency_stream Stream, class OnChunk>
    void pass(Stream& stream, OnChunk&& on_chunk) {
        pass(stream, [](std::size_t) { return true; }, on_chunk);
    }
    /// Places the nodes for which `chosen(degree)` holds, in stream order.
    template <adjacency_stream Stream, class Chosen, class OnChunk>
    void pass(Stream& stream, Chosen&& chosen, OnChunk&& on_chunk) {
        stream.rewind();
        for (adjacency_chunk chunk = stream.next(); !chunk.empty(); chunk = stream.next()) {
            counts_.begin(chunk);
            for (std::size_t i = 0; i < chunk.size(); ++i)
                if (const std::size_t degree = chunk.offsets[i + 1] - chunk.offsets[i]; chosen(degree))
                    place(chunk.node(i), i, degree);
            on_chunk(std::uint64_t{chunk.first} + chunk.size());
        }
    }

    [[nodiscard]] std::span<const partition_id16> parts() const noexcept { return part_; }
    [[nodiscard]] std::vector<partition_id16> take() && { return std::move(part_); }

private:
    struct candidate {
        double score = -std::numeric_limits<double>::infinity();
        double load_penalty = load_table::infinite;
        partition_id16 part = no_partition;

        [[nodiscard]] bool better_than(const candidate& other) const noexcept {
            if (score != other.score) return score > other.score;
            return load_penalty != other.load_penalty ? load_penalty < other.load_penalty : part < other.part;
        }
    };

    [[nodiscard]] std::size_t group_of(std::size_t v) const noexcept {
        if (limits_.labels.empty()) return 0;
        return std::min<std::size_t>(
            limits_.labels[v], limits_.counts.size() - 1); // `unlabeled` is greater than all labels
    }
    [[nodiscard]] std::uint64_t& load(std::size_t group, partition_id16 p) noexcept {
        return loads_[group * parts_ + p];
    }
    [[nodiscard]] std::uint64_t load(std::size_t group, partition_id16 p) const noexcept {
        return loads_[group * parts_ + p];
    }

    /// Places that part p reserves for a group, whose nodes are dealt round-robin from where the previous group ended.
    [[nodiscard]] std::uint64_t reserved(std::size_t group, partition_id16 p) const noexcept {
        if (!reserving_) return 0;
        const std::uint64_t n = limits_.counts[group];
        const std::uint32_t place = p >= dealt_from_[group] ? p - dealt_from_[group] : p + parts_ - dealt_from_[group];
        return n / parts_ + (place < n % parts_ ? 1 : 0);
    }
    [[nodiscard]] bool open_to_label(std::size_t group, partition_id16 p) const noexcept {
        return limits_.label_caps.empty() || load(group, p) < limits_.label_caps[group];
    }
    [[nodiscard]] bool fits(std::size_t group, partition_id16 p, std::uint64_t weight) const noexcept {
        if (reserving_ && load(group, p) < reserved(group, p)) return true;
        return occupied_[p] + weight <= limits_.cap && open_to_label(group, p);
    }

    void place(node_id v, std::size_t list, std::size_t degree) {
        const std::size_t group = group_of(v);
        const std::uint64_t weight = node_weight(balance_, degree), share = limits_.labels.empty() ? weight : 1;
        const partition_id16 from = std::exchange(part_[v], no_partition); // excludes self loops from the count
        bool was_parked = false;
        if (from != no_partition) {
            std::uint64_t& n = load(group, from);
            if (n > reserved(group, from)) occupied_[from] -= weight;
            n -= share;
            was_parked = load_table_(group, from) == load_table::infinite;
            load_table_.set(group, from, rule_.load_penalty(group, n));
        }
        counts_.count(list, part_);
        candidate best;
        counts_.take([&](partition_id16 p, std::uint32_t neighbors) {
            const double load_penalty = load_table_(group, p);
            const candidate c{rule_.score(neighbors, load_penalty), load_penalty, p};
            if (c.better_than(best) && fits(group, p, weight)) best = c;
        });
        if (const candidate c = least_loaded(group, weight, was_parked ? from : no_partition);
            best.part == no_partition || c.better_than(best))
            best = c;

        const partition_id16 to = best.part;
        part_[v] = to;
        std::uint64_t& n = load(group, to);
        if (n >= reserved(group, to)) occupied_[to] += weight;
        n += share;
        const bool parked = (to == from && was_parked) || load_table_(group, to) == load_table::infinite;
        load_table_.set(group, to, parked ? load_table::infinite : rule_.load_penalty(group, n));
        if (from != no_partition && from != to) reopen(from);
    }

    /// Part of lowest penalty that the node fits into; if none, see `scan`.
    /// \param listed  a part that already lists the group in `parked_`
    [[nodiscard]] candidate least_loaded(std::size_t group, std::uint64_t weight, partition_id16 listed) {
        partition_id16 p = load_table_.first(group);
        while (!fits(group, p, 1) && load_table_(group, p) != load_table::infinite) {
            if (p != listed) parked_[p].push_back(static_cast<std::uint32_t>(group));
            load_table_.set(group, p, load_table::infinite);
            p = load_table_.first(group);
        }
        if (!fits(group, p, weight)) p = scan(group, weight);
        const double load_penalty = load_table_(group, p);
        return {load_penalty == load_table::infinite ? -load_penalty : rule_.score(0, load_penalty), load_penalty, p};
    }
    /// Part of lowest penalty that the node fits into; if none, the one with the fewest of its group among those with
    /// room; if none, the lightest.
    [[nodiscard]] partition_id16 scan(std::size_t group, std::uint64_t weight) const noexcept {
        partition_id16 least = no_partition, fewest = no_partition, lightest = 0;
        for (std::uint32_t i = 0; i < parts_; ++i) {
            const auto p = static_cast<partition_id16>(i);
            if (fits(group, p, weight) && (least == no_partition || load_table_(group, p) < load_table_(group, least)))
                least = p;
            if (occupied_[p] + weight <= limits_.cap &&
                (fewest == no_partition || load(group, p) < load(group, fewest)))
                fewest = p;
            if (occupied_[p] < occupied_[lightest]) lightest = p;
        }
        return least != no_partition ? least : fewest != no_partition ? fewest : lightest;
    }

    /// Restores a part that a node left to the sets it was removed from, where it has room again.
    void reopen(partition_id16 p) {
        std::erase_if(parked_[p], [&](std::uint32_t group) {
            if (!fits(group, p, 1)) {
                // placing the node may have set a finite penalty for its own group
                load_table_.set(group, p, load_table::infinite);
                return false;
            }
            load_table_.set(group, p, rule_.load_penalty(group, load(group, p)));
            return true;
        });
    }

    balance_by balance_;
    std::uint32_t parts_;
    Rule rule_;
    greedy_limits limits_;
    bool reserving_ = false;
    std::vector<partition_id16> part_;      // [nodes]
    std::vector<std::uint64_t> loads_;      // [groups, parts] nodes; weight if there is one group
    std::vector<std::uint64_t> occupied_;   // [parts] weight, plus places reserved and not yet taken
    std::vector<std::uint32_t> dealt_from_; // [groups] first part that receives a place; if places are reserved
    std::vector<std::vector<std::uint32_t>> parked_; // [parts] groups whose set lacks the part
    load_table load_table_;                          // infinite: not in the set
    neighbor_counts counts_;
};

/// Memory of the engine, with a resumed state [bytes].
[[nodiscard]] inline std::uint64_t greedy_bytes(
    std::uint64_t nodes, std::uint64_t groups, const partition_request& request) noexcept {
    const std::uint32_t parts = request.parts;
    return (request.journal == nullptr ? 2 : 6) * nodes + 8 * groups * parts + load_table::bytes(groups, parts) +
        40 * std::uint64_t{parts} + neighbor_counts::bytes(parts) + 32 * groups;
}

/// Runs `passes` of the engine, from the journal's state, `initial` or nothing; saves after each pass. Throws
/// errc::config_mismatch if the journal holds a different state.
template <adjacency_stream Stream, greedy_rule Rule>
[[nodiscard]] std::vector<partition_id16> run_greedy(Stream& stream, const partition_request& request, const Rule& rule,
    greedy_limits limits, std::span<const partition_id16> initial, std::uint32_t passes) {
    const std::uint64_t nodes = stream.nodes();
    if (passes == 0) throw error(errc::invalid_argument, "at least one pass is needed", {.field = "passes"});
    greedy_engine<Rule> engine(request, nodes, rule, std::move(limits));
    const pass_checkpoint journal(request, nodes, passes);
    std::uint32_t done = journal.done();
    if (done != 0) {
        engine.start_from(stream, journal.load());
    } else if (!initial.empty()) {
        check_assignment(initial, request.parts, nodes);
        engine.start_from(stream, initial);
    }
    for (; done < passes; ++done) {
        const std::string phase = "pass " + std::to_string(done + 1) + " of " + std::to_string(passes);
        engine.pass(stream, [&](std::uint64_t placed) {
            check_stop(request);
            if (request.progress) request.progress(phase, placed, nodes);
        });
        journal.save(done + 1, engine.parts());
    }
    return std::move(engine).take();
}

} // namespace gneiss::detail
