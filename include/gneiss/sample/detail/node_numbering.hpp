// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Numbers distinct ids 0, 1, … in the order of first appearance, independent of the executor.
///
/// An open-addressing table with linear probing, about a quarter and at most half full, so most lookups end at the
/// first slot. One thread inserts in order. Several threads share the table by hash and record the first position of
/// each new id; ids are then numbered in the order of those positions.
/// Memory and time, including clearing: O(ids numbered since `begin`), independent of earlier batches.
template <node_id_type NodeId>
class node_numbering {
public:
    static constexpr std::size_t most_ids = std::size_t{1} << 31; ///< exclusive upper bound on the ids

    node_numbering() = default;
    /// \param limit  exclusive upper bound on the distinct ids, at most `most_ids`
    explicit node_numbering(std::size_t limit) : limit_(std::min(limit, most_ids)) {}

    /// Resets the numbering. `expected`: estimated number of ids, not binding. `most`: maximum number of distinct ids;
    /// bounds the table.
    void begin(std::size_t expected, std::size_t most) {
        nodes_.clear();
        most_ = most;
        clear(std::bit_ceil(std::max<std::size_t>(4 * expected, 1024)), serial_executor{});
    }

    /// Ids by number.
    [[nodiscard]] std::span<const NodeId> nodes() const noexcept { return nodes_; }

    /// Writes the number of each of `ids`, numbering new ones. Throws errc::out_of_range for 2³¹ ids in a call, or
    /// distinct ones since `begin`, on any executor; then only `begin` is allowed.
    template <executor E>
    void number(std::span<const NodeId> ids, std::span<std::uint32_t> numbers, const E& executor) {
        if (ids.size() >= most_ids) throw error(errc::out_of_range, "a hop of a sample has 2^31 edges or more");
        constexpr std::size_t worth_sharing = 8192;
        if (executor.concurrency() == 1 || ids.size() < worth_sharing)
            number_in_order(ids, numbers);
        else
            number_together(ids, numbers, executor);
    }

private:
    static constexpr NodeId no_node = std::numeric_limits<NodeId>::max(); // not a node: node counts fit the type
    static constexpr std::uint32_t pending = std::uint32_t{1} << 31;      // not a number: there are fewer
    struct slot {
        NodeId key;
        std::uint32_t number;
    };

    void check_count(std::size_t count) const {
        if (count >= limit_)
            throw error(errc::out_of_range, "a sample has " + std::to_string(limit_) + " nodes or more");
    }

    [[nodiscard]] std::size_t home(NodeId id) const noexcept {
        return static_cast<std::size_t>((static_cast<std::uint64_t>(id) * 0x9e3779b97f4a7c15ULL) >> shift_);
    }

    /// Slot of `id`, or the slot where it would be inserted.
    [[nodiscard]] std::size_t place_of(NodeId id) const noexcept {
        std::size_t at = home(id);
        while (table_[at].key != id && table_[at].key != no_node) at = (at + 1) & mask_;
        return at;
    }

    template <executor E>
    void clear(std::size_t slots, const E& executor) {
        if (table_.size() < slots) {
            table_ = {}; // free first, so that both never coexist
            table_ = aligned_buffer<slot, 64>(slots);
        }
        parallel_for(executor, slots, 65536, [&](std::size_t begin, std::size_t end) {
            // every key becomes `no_node`
            std::memset(static_cast<void*>(table_.data() + begin), 0xff, (end - begin) * sizeof(slot));
        });
        mask_ = slots - 1;
        shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
    }

    /// Makes room for `ids` ids in total, including repetitions, with `slots_each` slots per id.
    template <executor E>
    void reserve(std::size_t ids, std::size_t slots_each, const E& executor) {
        const std::size_t slots = slots_each * std::min(ids, most_);
        if (slots <= mask_ + 1) return;
        clear(std::bit_ceil(slots), executor);
        constexpr std::size_t ahead = 16;
        for (std::size_t i = 0; i < nodes_.size(); ++i) {
            if (i + ahead < nodes_.size()) prefetch(&table_[home(nodes_[i + ahead])]);
            table_[place_of(nodes_[i])] = {nodes_[i], static_cast<std::uint32_t>(i)};
        }
    }

    void number_in_order(std::span<const NodeId> ids, std::span<std::uint32_t> numbers) {
        constexpr std::size_t block = 2048, ahead = 16;
        constexpr std::size_t near_ids = 65536; // of more, a table that is sparse is beyond the near caches
        for (std::size_t begin = 0; begin < ids.size(); begin += block) {
            const std::size_t end = std::min(ids.size(), begin + block);
            std::size_t count = nodes_.size();
            reserve(count + (end - begin), count < near_ids ? 4 : 2, serial_executor{});
            nodes_.resize(count + (end - begin));
            slot* const table = table_.data();
            NodeId* const nodes = nodes_.data();
            for (std::size_t e = begin; e < std::min(end, begin + ahead); ++e) prefetch(table + home(ids[e]));
            for (std::size_t e = begin; e < end; ++e) {
                prefetch(table + home(ids[std::min(e + ahead, end - 1)]));
                const NodeId id = ids[e];
                const std::size_t at = place_of(id);
                const bool fresh = table[at].key == no_node;
                const std::uint32_t number = fresh ? static_cast<std::uint32_t>(count) : table[at].number;
                table[at] = {id, number};
                nodes[count] = id; // overwritten by the next one unless counted
                count += fresh;
                numbers[e] = number;
            }
            nodes_.resize(count);
            check_count(count);
        }
    }

    /// Each shard takes the ids whose home is in its part of the table, in order, so it sees the first position of
    /// each; ids that would probe beyond its part wait until the end. A new id holds `pending` and that position until
    /// its number is known.
    template <executor E>
    void number_together(std::span<const NodeId> ids, std::span<std::uint32_t> numbers, const E& executor) {
        constexpr std::size_t grain = 4096, ahead = 16, most_shards = 8; // each shard scans all ids
        reserve(nodes_.size() + ids.size(), 2, executor); // most ids repeat: a larger table would miss the cache
        const std::size_t shards = std::bit_floor(std::min(executor.concurrency(), most_shards));
        beyond_.resize(std::max(beyond_.size(), shards));
        parallel_for(
            executor, shards, 1, [&](std::size_t shard, std::size_t) { insert_shard(shard, shards, ids, numbers); });
        for (std::size_t shard = 0; shard < shards; ++shard)
            for (const std::uint32_t e : beyond_[shard]) { // few
                slot& at = table_[place_of(ids[e])];
                if (at.key == no_node) at = {ids[e], pending | e};
                numbers[e] = at.number;
            }
        const auto is_first = [&](std::size_t e) { return numbers[e] == (pending | static_cast<std::uint32_t>(e)); };
        starts_.assign(ceil_div(ids.size(), grain), 0);
        parallel_for(executor, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            std::uint32_t firsts = 0;
            for (std::size_t e = begin; e < end; ++e) firsts += is_first(e);
            starts_[begin / grain] = firsts;
        });
        auto count = static_cast<std::uint32_t>(nodes_.size());
        for (std::uint32_t& start : starts_)
            count += std::exchange(start, count); // below 2^32: either part is below 2^31
        check_count(count);
        nodes_.resize(count);
        parallel_for(executor, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            std::uint32_t firsts[grain];
            std::size_t fresh = 0;
            for (std::size_t e = begin; e < end; ++e) {
                firsts[fresh] = static_cast<std::uint32_t>(e);
                fresh += is_first(e);
            }
            std::uint32_t next = starts_[begin / grain];
            for (std::size_t i = 0; i < fresh; ++i, ++next) {
                prefetch(table_.data() + home(ids[firsts[std::min(i + ahead, fresh - 1)]]));
                const std::uint32_t e = firsts[i];
                nodes_[next] = ids[e];
                table_[place_of(ids[e])].number = numbers[e] = next;
            }
        });
        parallel_for(executor, ids.size(), grain, [&](std::size_t begin, std::size_t end) {
            for (std::size_t e = begin; e < end; ++e)
                // number of its first position, known by now
                if (numbers[e] >= pending) numbers[e] = numbers[numbers[e] - pending];
        });
    }

    void insert_shard(
        std::size_t shard, std::size_t shards, std::span<const NodeId> ids, std::span<std::uint32_t> numbers) {
        constexpr std::size_t block = 2048, ahead = 16;
        std::vector<std::uint32_t>& beyond = beyond_[shard];
        beyond.clear();
        slot* const table = table_.data();
        const std::size_t part = (mask_ + 1) / shards, end_of_part = (shard + 1) * part;
        const auto part_shift = static_cast<unsigned>(std::countr_zero(part));
        std::uint32_t mine[block];
        for (std::size_t begin = 0; begin < ids.size(); begin += block) {
            const std::size_t end = std::min(ids.size(), begin + block);
            std::size_t count = 0;
            for (std::size_t e = begin; e < end; ++e) { // branch-free: half of the branches would be mispredicted
                mine[count] = static_cast<std::uint32_t>(e);
                count += home(ids[e]) >> part_shift == shard;
            }
            for (std::size_t i = 0; i < std::min(count, ahead); ++i) prefetch(table + home(ids[mine[i]]));
            for (std::size_t i = 0; i < count; ++i) {
                prefetch(table + home(ids[mine[std::min(i + ahead, count - 1)]]));
                const std::uint32_t e = mine[i];
                std::size_t at = home(ids[e]);
                while (at < end_of_part && table[at].key != ids[e] && table[at].key != no_node) ++at;
                if (at == end_of_part) {
                    beyond.push_back(e);
                    continue;
                }
                const bool fresh = table[at].key == no_node;
                table[at] = {ids[e], fresh ? pending | e : table[at].number};
                numbers[e] = table[at].number;
            }
        }
    }

    std::size_t limit_ = most_ids;
    aligned_buffer<slot, 64> table_;
    std::size_t mask_ = 0;
    std::size_t most_ = 0;
    unsigned shift_ = 64;
    std::vector<NodeId> nodes_;
    std::vector<std::uint32_t> starts_;
    std::vector<std::vector<std::uint32_t>> beyond_; // per shard: positions of ids whose slots may be beyond its part
};

/// Starts a batch by numbering the seeds 0, 1, …. Throws `invalid_argument` for a repeated seed, `out_of_range` for one
/// beyond the graph.
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
