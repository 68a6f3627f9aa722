// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/csr.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/adjacency/resident_csr.hpp>
#include <gneiss/storage/adjacency/resident_graph.hpp>
#include <gneiss/storage/detail/check_plan.hpp>
#include <gneiss/storage/detail/growing_charge.hpp>
#include <gneiss/storage/detail/state_prefetcher.hpp>
#include <gneiss/storage/edge/block_reader.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/engine/any_engine.hpp>

namespace gneiss {

/// Form of the graph of a state in memory.
enum class graph_form : std::uint8_t {
    blocks, ///< as read: a swap reads new buckets, two states share the rest; a node costs O(c) for c partitions
    csr     ///< merged into one list per node on load: a node costs O(1), the common part of two states is copied
};

/// Options of `graph_buffer`.
struct graph_buffer_options {
    /// `blocks` if a swap replaces few partitions, as with BETA; `csr` if it replaces half or more, as with COMET and
    /// macro-batches, or if all states are the same. A single partition's block is its CSR: it is never merged.
    graph_form form = graph_form::blocks;
    csr_options columns{};           ///< columns of a `csr` besides neighbors; blocks have all that is stored
    trace_recorder* trace = nullptr; ///< gets a track of the loading thread; outlives the buffer
    /// Only the nodes of partitions that begin an edge bucket of the state have lists, with their neighbors in all
    /// resident partitions: a worker draws for the nodes that it owns. The form is `blocks`.
    bool owned_lists = false;
};

/// Holds the graph of the current state and loads that of the next one in the background: all buckets among the
/// resident partitions, trained in that state or not.
///
///     const auto both = neighbor_direction::both;
///     graph_buffer graphs(store, engines, both, graph_buffer::need(plan, store, both).bytes, budget);
///     graphs.begin_epoch(plan);
///     for (std::uint32_t i = 0; i < plan.size(); ++i) { auto graph = graphs.acquire(i); … }   // a neighbor_source
///
/// A swap reads the blocks of new buckets and drops those without a user; the others are shared or copied, also from
/// the last state of an epoch to the first of the next. With all partitions resident, each block is read once. Batches
/// of two states may be in flight together, each with its own graph. Merging keeps the blocks of one partition in
/// memory while those of the next are read; O(edges), and O(log degree) per node of a partition that both states have.
/// Memory: `need`, charged to the budget. Thread-safety: one thread acquires states; graphs may be dropped on
/// any. Errors of the background thread are rethrown by `acquire`: io_error; errc::corrupt with path and offset.
///
/// From examples/16_graph_network.cpp:
/// \snippet 16_graph_network.cpp buffers
class graph_buffer {
public:
    /// \param store  outlives this
    /// \param keeps  lists to load; blocks of the other direction are not read
    /// \param bytes  `need` of the plans to come; a plan with a state that takes more charges the difference
    /// when it
    ///               begins. Throws over_budget
    graph_buffer(const bucket_store& store, engine_factory engines, neighbor_direction keeps, std::uint64_t bytes,
        memory_budget& budget, const graph_buffer_options& options = {})
        : store_(store),
          keeps_(keeps),
          options_(options),
          charge_(budget, need(bytes)),
          first_edge_(static_cast<std::size_t>(store.layout().buckets()) + 1, 0),
          reader_(store, std::move(engines)) {
        for (std::size_t i = 0; i < store.table().size(); ++i)
            first_edge_[i + 1] = first_edge_[i] + store.table()[i].edges;
        loader_.emplace([this](const buffer_state& s) { return make_counted(s); },
            [this](const buffer_state& s) { return fits_beside_last(s); }, open_track(options_.trace, "graph loader"),
            "load graph");
    }

    /// Returns the memory of a buffer of `bytes`.
    [[nodiscard]] static memory_need need(std::uint64_t bytes) { return {"graph", bytes}; }
    /// Returns the memory of a plan: the most that two consecutive states take together, including the merge of the
    /// second. O(c²) per state. Throws errc::invalid_argument for a plan of other partitions.
    [[nodiscard]] static memory_need need(const epoch_plan& states, const bucket_store& store, neighbor_direction keeps,
        const graph_buffer_options& options = {}) {
        detail::check_plan(states, store.rows().partitions);
        std::uint64_t most = 0;
        for (std::size_t s = 0; s < states.size(); ++s) {
            const buffer_state &now = states[s], &before = states[s == 0 ? 0 : s - 1];
            if (merges(store, options)) // a plan may begin with any state
                most = std::max({most, bytes_of_merging(store, keeps, options.columns, now.resident, before.resident),
                    bytes_of_merging(store, keeps, options.columns, now.resident, {})});
            else
                most = std::max(most, bytes_of_both(store, keeps, blocks_of(now, options), blocks_of(before, options)));
        }
        return need(most);
    }

    graph_buffer(const bucket_store&&, engine_factory, neighbor_direction, std::uint64_t, memory_budget&,
        const graph_buffer_options& = {}) = delete; // the store must outlive the buffer

    /// Returns the store that it reads.
    [[nodiscard]] const bucket_store& store() const noexcept { return store_; }
    /// Returns the lists that it loads.
    [[nodiscard]] neighbor_direction directions() const noexcept { return keeps_; }
    /// Returns the number of a bucket's edge 0 among all edges; its other edges follow in their stored order.
    /// Throws errc::out_of_range for a partition beyond the store.
    [[nodiscard]] edge_index first_edge(edge_bucket b) const {
        store_.check(b);
        return first_edge_[static_cast<std::size_t>(store_.layout().index(b))];
    }

    /// Starts an epoch at `first_state`; loading begins at once, or when no graph of an earlier epoch is held.
    /// Throws errc::invalid_argument for a plan of other partitions; over_budget, with the bytes of all charges, for a
    /// state that the budget has no room for.
    void begin_epoch(const epoch_plan& states, std::uint32_t first_state = 0) {
        detail::check_plan(states, store_.rows().partitions);
        for (std::size_t s = first_state; s < states.size(); ++s) charge_.at_least(bytes_beside(states[s], {}));
        loader_->begin(states, first_state);
    }

    /// Returns the graph of state `index`. States are acquired in order, once each; it waits while the graphs of two
    /// states are held. Rethrows errors of loading; throws errc::canceled; errc::invalid_argument for another state
    /// than the next one.
    /// Precondition, not checked: the graph is dropped before this.
    [[nodiscard]] std::shared_ptr<const resident_graph> acquire(std::uint32_t index, const std::stop_token& stop = {}) {
        return loader_->acquire(index, stop);
    }

    /// Frees the memory but keeps the budget charge, so the owner may reuse it until the next epoch begins. Waits until
    /// no graph is held.
    void release() {
        loader_->forget([this] {
            last_.clear();
            lists_[0] = lists_[1] = nullptr;
            made_ = {};
        });
    }

    /// Returns true if state `index` is loaded, or beyond the plan; false if it was acquired.
    [[nodiscard]] bool ready(std::uint32_t index) const { return loader_->ready(index); }

    [[nodiscard]] io_stats statistics() const { return reader_.statistics(); }

private:
    using blocks = std::map<block_place, resident_graph::block>;

    [[nodiscard]] static std::uint64_t own_size(const bucket_store& store, edge_bucket b, edge_direction d) noexcept {
        return store.rows().size(d == edge_direction::out ? b.first : b.second);
    }

    /// Partitions whose nodes have lists, and those of their neighbors.
    struct lists {
        std::vector<partition_id> listed, resident; // ascending
    };
    [[nodiscard]] static lists blocks_of(const buffer_state& s, const graph_buffer_options& options) {
        if (!options.owned_lists) return {s.resident, s.resident};
        lists result{{}, s.resident};
        for (const edge_bucket& b : s.edge_buckets) result.listed.push_back(b.first);
        std::ranges::sort(result.listed);
        result.listed.erase(std::ranges::unique(result.listed).begin(), result.listed.end());
        return result;
    }

    /// Returns the bytes of the blocks of either.
    [[nodiscard]] static std::uint64_t bytes_of_both(
        const bucket_store& store, neighbor_direction keeps, const lists& these, const lists& those) {
        std::uint64_t sum = 0;
        const auto add = [&](const lists& of, const lists& except) {
            for (const partition_id own : of.listed)
                for (const partition_id other : of.resident)
                    for_each_side(keeps, [&](edge_direction d) {
                        const edge_bucket b = bucket_of(own, other, d);
                        if (store.extent(b).edges != 0 && !(among(except.listed, own) && among(except.resident, other)))
                            sum += block_reader::memory_of(store, {b, d}) +
                                resident_block::memory_of_ranks(own_size(store, b, d));
                    });
        };
        add(these, {});
        add(those, these);
        return sum;
    }

    [[nodiscard]] static bool merges(const bucket_store& store, const graph_buffer_options& options) noexcept {
        return options.form == graph_form::csr && !options.owned_lists && store.rows().partitions > 1;
    }

    [[nodiscard]] static edge_index edges_of(const bucket_store& store, edge_bucket b) noexcept {
        return store.table()[static_cast<std::size_t>(store.layout().index(b))].edges;
    }
    [[nodiscard]] static edge_index edges_among(
        const bucket_store& store, std::span<const partition_id> resident) noexcept {
        edge_index sum = 0;
        for (const partition_id i : resident)
            for (const partition_id j : resident) sum += edges_of(store, {i, j});
        return sum;
    }
    [[nodiscard]] static std::uint64_t bytes_of_lists(const bucket_store& store, neighbor_direction keeps,
        const csr_options& columns, std::span<const partition_id> resident) {
        std::uint64_t nodes = 0;
        for (const partition_id i : resident) nodes += store.rows().size(i);
        return resident_csr::bytes_needed(nodes, edges_among(store, resident), columns) *
            (keeps == neighbor_direction::both ? 2 : 1);
    }

    /// Returns the bytes of the lists among the partitions `now`, while those of `before` are in memory, and of the
    /// blocks that are in memory at once during the merge.
    [[nodiscard]] static std::uint64_t bytes_of_merging(const bucket_store& store, neighbor_direction keeps,
        const csr_options& columns, std::span<const partition_id> now, std::span<const partition_id> before) {
        const std::uint64_t lists = bytes_of_lists(store, keeps, columns, now);
        if (std::ranges::equal(now, before)) return lists;
        std::uint64_t most = 0, last = 0;
        for_each_side(keeps, [&](edge_direction d) {
            for (const partition_id own : now) {
                std::uint64_t sum = 0;
                for (const partition_id other : now)
                    if (const edge_bucket b = bucket_of(own, other, d);
                        edges_of(store, b) != 0 && !(among(before, own) && among(before, other)))
                        sum += block_reader::memory_of(store, {b, d});
                most = std::max(most, last + sum);
                last = sum;
            }
        });
        return lists + most + (before.empty() ? 0 : bytes_of_lists(store, keeps, columns, before));
    }

    /// Returns the bytes of a state's graph, made while that of another is in memory.
    [[nodiscard]] std::uint64_t bytes_beside(const buffer_state& now, const buffer_state& before) const {
        return merges(store_, options_)
            ? bytes_of_merging(store_, keeps_, options_.columns, now.resident, before.resident)
            : bytes_of_both(store_, keeps_, blocks_of(now, options_), blocks_of(before, options_));
    }

    [[nodiscard]] static bool among(std::span<const partition_id> some, partition_id p) noexcept {
        return std::ranges::binary_search(some, p);
    }

    // The functions below are called by the loading thread.

    [[nodiscard]] bool fits_beside_last(const buffer_state& s) const {
        return bytes_beside(s, made_) <= charge_.bytes();
    }

    /// Returns the lists of a state. After an error no read is in flight: another thread destroys the reader.
    [[nodiscard]] std::unique_ptr<resident_graph> make_merged(const buffer_state& s) {
        const bool same = s.resident == made_.resident && (lists_[0] || lists_[1]);
        if (!same) {
            if (!fits_beside_last(s)) lists_[0] = lists_[1] = nullptr; // without a user
            try {
                merge(s);
            } catch (...) {
                reader_.abandon();
                throw;
            }
        }
        return std::make_unique<resident_graph>(store_.rows(), lists_[0], lists_[1]);
    }

    /// Sets lists_ to those of a state, partition by partition: blocks of the next one are read while those of one are
    /// merged.
    void merge(const buffer_state& s) {
        const edge_index edges = edges_among(store_, s.resident);
        std::shared_ptr<resident_csr> result[2];
        std::vector<std::pair<edge_direction, partition_id>> all;
        for_each_side(keeps_, [&](edge_direction d) {
            result[side(d)] = std::make_shared<resident_csr>(store_.rows(), s.resident, edges, options_.columns);
            for (const partition_id own : s.resident) all.emplace_back(d, own);
        });
        std::vector<resident_csr::part> parts,
            next = all.empty() ? parts : begin_partition(s, all[0].first, all[0].second);
        for (std::size_t i = 0; i < all.size(); ++i) {
            parts.swap(next);
            if (i + 1 < all.size()) next = begin_partition(s, all[i + 1].first, all[i + 1].second);
            const std::vector<loaded_block> loaded = reader_.finish();
            const edge_direction d = all[i].first;
            auto block = loaded.begin();
            for (resident_csr::part& p : parts)
                if (!copied(d, all[i].second, p.partner)) p.block = &(block++)->block;
            result[side(d)]->append(parts, lists_[side(d)].get());
        }
        lists_[0] = std::move(result[0]);
        lists_[1] = std::move(result[1]);
        made_ = s;
    }

    /// Returns the parts of a partition's lists, by partner; starts reading the blocks of those that are not copied.
    [[nodiscard]] std::vector<resident_csr::part> begin_partition(
        const buffer_state& s, edge_direction d, partition_id own) {
        std::vector<resident_csr::part> parts;
        std::vector<block_place> wanted;
        for (const partition_id other : s.resident) {
            const edge_bucket from = bucket_of(own, other, d);
            if (edges_of(store_, from) == 0) continue;
            parts.push_back({.partner = other, .first_edge = first_edge(from)});
            if (!copied(d, own, other)) wanted.push_back({from, d});
        }
        reader_.start(wanted);
        return parts;
    }
    /// Returns true if the previous state has the lists of a bucket.
    [[nodiscard]] bool copied(edge_direction d, partition_id own, partition_id other) const noexcept {
        return lists_[side(d)] && among(made_.resident, own) && among(made_.resident, other);
    }
    [[nodiscard]] static constexpr std::size_t side(edge_direction d) noexcept {
        return d == edge_direction::out ? 0 : 1;
    }

    [[nodiscard]] std::unique_ptr<resident_graph> make_counted(const buffer_state& s) {
        const std::uint64_t before = reader_.statistics().read_bytes;
        auto result = merges(store_, options_) ? make_merged(s) : make(s);
        loader_->moved(reader_.statistics().read_bytes - before);
        return result;
    }
    [[nodiscard]] std::unique_ptr<resident_graph> make(const buffer_state& s) {
        if (!fits_beside_last(s)) last_.clear(); // without a user
        blocks now;
        std::vector<block_place> missing;
        const lists all = blocks_of(s, options_);
        for_each_side(keeps_, [&](edge_direction d) {
            const bool out = d == edge_direction::out;
            for (const partition_id i : out ? all.listed : all.resident)
                for (const partition_id j : out ? all.resident : all.listed) {
                    if (store_.extent({i, j}).edges == 0) continue;
                    const block_place at{{i, j}, d};
                    if (const auto known = last_.find(at); known != last_.end())
                        now.insert(*known);
                    else
                        missing.push_back(at);
                }
        });
        std::vector<loaded_block> loaded = reader_.read(missing);
        for (std::size_t i = 0; i < missing.size(); ++i) {
            const edge_bucket from = missing[i].bucket;
            auto block = std::make_shared<resident_block>(std::move(loaded[i].bytes), loaded[i].block,
                own_size(store_, from, missing[i].direction), first_edge(from));
            if (missing[i].direction == edge_direction::in && from.first == from.second &&
                keeps_ == neighbor_direction::both)
                block->find_self_loops();
            now[missing[i]] = std::move(block);
        }
        std::vector<resident_graph::block> sides[2];
        for_each_side(keeps_, [&](edge_direction d) {
            auto& blocks_of_side = sides[side(d)];
            for (const partition_id own : s.resident)
                for (const partition_id other : s.resident) {
                    const auto found = now.find({bucket_of(own, other, d), d});
                    blocks_of_side.push_back(found == now.end() ? nullptr : found->second);
                }
        });
        last_ = std::move(now);
        made_ = s;
        return std::make_unique<resident_graph>(
            store_.rows(), s.resident, keeps_, std::move(sides[0]), std::move(sides[1]));
    }

    const bucket_store& store_;
    neighbor_direction keeps_;
    graph_buffer_options options_;
    detail::growing_charge charge_;
    std::vector<edge_index> first_edge_; // first edge of each bucket, among all edges

    block_reader reader_;                          // loading thread only, with the members below
    blocks last_;                                  // blocks of the state made last
    std::shared_ptr<const resident_csr> lists_[2]; // the same, merged: out, in
    buffer_state made_;                            // that state

    std::optional<detail::state_prefetcher<resident_graph>> loader_; // last: its thread uses the rest
};

} // namespace gneiss
