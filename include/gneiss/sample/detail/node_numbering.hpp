#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/prefetch.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Numbers distinct ids 0, 1, … in the order in which they first appear, whatever the executor.
///
/// An open-addressing table with linear probing, at most a quarter full: most ids are found where they are looked for
/// first. One thread inserts in order. Several insert at once and agree on the earliest place of each id by an atomic
/// minimum; the ids are then numbered in the order of those places.
/// Memory and time, clearing included: O(ids numbered since `begin`), whatever was numbered before that.
template <node_id_type NodeId>
class node_numbering {
public:
    /// Forgets everything. `expected`: a guess at how many ids will come, not binding. `most`: how many there are; the table
    /// has no room for more.
    void begin(std::size_t expected, std::size_t most) {
        nodes_.clear();
        most_ = most;
        clear(std::bit_ceil(std::max<std::size_t>(4 * expected, 1024)));
    }

    /// The ids by number.
    [[nodiscard]] std::span<const NodeId> nodes() const noexcept { return nodes_; }

    /// Writes the number of each of `ids`, numbering those that are new. Throws errc::out_of_range at 2³¹ ids.
    template <executor E>
    void number(std::span<const NodeId> ids, std::span<std::uint32_t> numbers, const E& on) {
        if (nodes_.size() + ids.size() >= std::size_t{1} << 31)
            throw error(errc::out_of_range, "a hop of a sample has 2^31 edges or more");
        constexpr std::size_t worth_sharing = 8192;
        if (on.concurrency() == 1 || ids.size() < worth_sharing)
            number_in_order(ids, numbers);
        else
            number_together(ids, numbers, on);
    }

private:
    static constexpr NodeId nobody = std::numeric_limits<NodeId>::max(); // no node: counts of nodes fit the type
    struct slot {
        NodeId key;
        std::uint32_t number;
    };

    [[nodiscard]] std::size_t home(NodeId id) const noexcept {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15ULL) >> shift_);
    }

    void clear(std::size_t slots) {
        if (table_.size() < slots) {
            table_ = {}; // first, so that never both are there
            table_ = aligned_buffer<slot, 64>(slots);
        }
        std::memset(static_cast<void*>(table_.data()), 0xff, slots * sizeof(slot)); // nobody
        mask_ = slots - 1;
        shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
    }

    /// Makes room for `ids` ids in all, repetitions included.
    void reserve(std::size_t ids) {
        ids = std::min(ids, most_);
        if (4 * ids <= mask_ + 1) return;
        clear(std::bit_ceil(4 * ids));
        constexpr std::size_t ahead = 16;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (i + ahead < nodes_.size()) prefetch(&table_[home(nodes_[i + ahead])]);
            std::size_t at = home(nodes_[i]);
            while (table_[at].key != nobody) at = (at + 1) & mask_;
            table_[at] = {nodes_[i], static_cast<std::uint32_t>(i)};
        }
    }

    void number_in_order(std::span<const NodeId> ids, std::span<std::uint32_t> numbers) {
        constexpr std::size_t block = 2048, ahead = 16;
        for (std::size_t begin = 0; begin < ids.size(); begin += block) {
            const std::size_t end = std::min(ids.size(), begin + block);
            std::size_t count = nodes_.size();
            reserve(count + (end - begin));
            nodes_.resize(count + (end - begin));
            slot* const table = table_.data();
            NodeId* const nodes = nodes_.data();
            for (std::size_t e = begin; e < std::min(end, begin + ahead); ++e) prefetch(table + home(ids[e]));
            for (std::size_t e = begin; e < end; ++e) {
                prefetch(table + home(ids[std::min(e + ahead, end - 1)]));
                const NodeId id = ids[e];
                std::size_t at = home(id);
                while (table[at].key != id && table[at].key != nobody) at = (at + 1) & mask_;
                const bool fresh = table[at].key == nobody;
                const std::uint32_t number = fresh ? static_cast<std::uint32_t>(count) : table[at].number;
                table[at] = {id, number};
                nodes[count] = id; // overwritten by the next unless it counts
                count += fresh;
                numbers[e] = number;
            }
            nodes_.resize(count);
        }
    }

    template <executor E>
    void number_together(std::span<const NodeId> ids, std::span<std::uint32_t> numbers, const E& on) {
        constexpr std::size_t grain = 4096, ahead = 16;
        constexpr auto relaxed = std::memory_order_relaxed; // the executor orders the passes
        const auto base = static_cast<std::uint32_t>(nodes_.size());
        reserve(nodes_.size() + ids.size());
        slot* const table = table_.data();
        const auto number_at = [&](std::size_t at) { return std::atomic_ref(table[at].number); };
        // Numbers below `base` stay; a new id has base + the earliest place where it stands.
        parallel_for(on, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            for (std::size_t e = begin; e < end; ++e) {
                prefetch(table + home(ids[std::min(e + ahead, end - 1)]));
                const NodeId id = ids[e];
                std::size_t at = home(id);
                for (;; at = (at + 1) & mask_) {
                    std::atomic_ref key(table[at].key);
                    NodeId there = key.load(relaxed);
                    if (there == nobody && key.compare_exchange_strong(there, id, relaxed)) break;
                    if (there == id) break;
                }
                const std::uint32_t mine = base + static_cast<std::uint32_t>(e);
                std::uint32_t least = number_at(at).load(relaxed);
                while (mine < least && !number_at(at).compare_exchange_weak(least, mine, relaxed)) {}
                numbers[e] = static_cast<std::uint32_t>(at); // until the last pass
            }
        });
        const auto is_first = [&](std::size_t e) {
            return number_at(numbers[e]).load(relaxed) == base + static_cast<std::uint32_t>(e);
        };
        starts_.assign(ceil_div(ids.size(), grain), 0);
        parallel_for(on, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            std::uint32_t firsts = 0;
            for (std::size_t e = begin; e < end; ++e) firsts += is_first(e);
            starts_[begin / grain] = firsts;
        });
        std::uint32_t count = base;
        for (std::uint32_t& start : starts_) count += std::exchange(start, count);
        nodes_.resize(count);
        // A number given here is at most base + its place, hence less than base + any other place of the same id: the
        // comparison stays right while numbers are written.
        parallel_for(on, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            std::uint32_t next = starts_[begin / grain];
            for (std::size_t e = begin; e < end; ++e)
                if (is_first(e)) {
                    nodes_[next] = ids[e];
                    number_at(numbers[e]).store(next++, relaxed);
                }
        });
        parallel_for(on, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            for (std::size_t e = begin; e < end; ++e) numbers[e] = table[numbers[e]].number;
        });
    }

    aligned_buffer<slot, 64> table_;
    std::size_t mask_ = 0;
    std::size_t most_ = 0;
    unsigned shift_ = 64;
    std::vector<NodeId> nodes_;
    std::vector<std::uint32_t> starts_;
};

/// Begins a batch: the seeds are numbered 0, 1, …. Throws `invalid_argument` if one is given twice, `out_of_range` if one is
/// no node.
template <node_id_type NodeId, class G>
void number_seeds(node_numbering<NodeId>& numbering, const G& graph, std::span<const NodeId> seeds) {
    for (const NodeId seed : seeds)
        if (seed >= graph.nodes())
            throw error(errc::out_of_range,
                "seed node " + std::to_string(seed) + " of a graph of " + std::to_string(graph.nodes()) + " nodes");
    numbering.begin(seeds.size(), static_cast<std::size_t>(graph.nodes()));
    std::vector<std::uint32_t> numbers(seeds.size());
    numbering.number(seeds, std::span(numbers), serial_executor{});
    for (std::size_t i = 0; i < seeds.size(); ++i)
        if (numbers[i] != i)
            throw error(errc::invalid_argument, "seed node " + std::to_string(seeds[i]) + " is given twice");
}

} // namespace gneiss::detail
