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
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/any_engine.hpp>
#include <gneiss/storage/block_reader.hpp>
#include <gneiss/storage/bucket_store.hpp>
#include <gneiss/storage/detail/state_loader.hpp>
#include <gneiss/storage/resident_graph.hpp>

namespace gneiss {

/// Holds the graph of the current state and loads that of the next one meanwhile: all buckets among the resident partitions,
/// whether they are trained there or not.
///
/// A swap reads the blocks of the buckets that are new and drops those that nobody holds any more; the others are shared,
/// also from the last state of an epoch to the first of the next. With all partitions resident, each block is read once.
/// Batches of two states may be in flight together, each with the graph of its own.
/// Memory: `bytes_needed`, charged to the budget. Thread-safety: one thread asks for states; graphs may be dropped on any.
/// Errors of the background thread are rethrown by `acquire`: io_error; errc::corrupt with path and offset.
class graph_buffer {
public:
    /// \param store  outlives this
    /// \param keeps  the lists to load; blocks of the other direction are not read
    /// \param bytes  what `bytes_needed` said of the plans to come. Throws over_budget
    graph_buffer(const bucket_store& store, engine_factory engines, neighbour_direction keeps, std::uint64_t bytes,
        memory_budget& budget)
        : store_(store),
          keeps_(keeps),
          bytes_(bytes),
          charge_(budget.charge("graph", bytes)),
          first_edge_(static_cast<std::size_t>(store.layout().buckets()) + 1, 0),
          reader_(store, std::move(engines)) {
        for (std::size_t i = 0; i < store.table().size(); ++i) first_edge_[i + 1] = first_edge_[i] + store.table()[i].edges;
        loader_.emplace([this](const state& s) { return make(s); });
    }

    /// What a plan needs: the most that the blocks of two consecutive states take together [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(
        const plan& states, const bucket_store& store, neighbour_direction keeps) {
        std::uint64_t most = 0;
        for (std::size_t s = 0; s < states.size(); ++s)
            most = std::max(most, bytes_of_both(store, keeps, states[s].resident, states[s == 0 ? 0 : s - 1].resident));
        return most;
    }

    [[nodiscard]] const bucket_store& store() const noexcept { return store_; }
    /// Number of a bucket's edge 0 among all edges; the others follow in their stored order.
    [[nodiscard]] edge_index first_edge(edge_bucket b) const noexcept {
        return first_edge_[static_cast<std::size_t>(store_.layout().index(b))];
    }

    /// Starts an epoch at `first_state`; loading begins at once. Precondition: no graph of an earlier epoch is held.
    void begin_epoch(const plan& states, std::uint32_t first_state = 0) { loader_->begin(states, first_state); }

    /// The graph of state `index`. States are asked for in order, once each. Throws what loading threw, or
    /// errc::cancelled. Precondition: it is dropped before this goes.
    [[nodiscard]] std::shared_ptr<const resident_graph> acquire(std::uint32_t index, const std::stop_token& stop = {}) {
        return loader_->acquire(index, stop);
    }

    /// Whether state `index` is loaded, or beyond the plan. Not to be asked of a state that was acquired.
    [[nodiscard]] bool ready(std::uint32_t index) const { return loader_->ready(index); }

    [[nodiscard]] io_stats statistics() const { return reader_.statistics(); }

private:
    using blocks = std::map<block_place, resident_graph::block>;

    template <class Visit>
    static void for_each_side(neighbour_direction keeps, Visit&& visit) {
        if (keeps != neighbour_direction::in) visit(edge_direction::out);
        if (keeps != neighbour_direction::out) visit(edge_direction::in);
    }
    [[nodiscard]] static std::uint64_t own_size(const bucket_store& store, edge_bucket b, edge_direction d) noexcept {
        return store.rows().size(d == edge_direction::out ? b.first : b.second);
    }

    /// Bytes of the blocks among the partitions of one list or among those of the other.
    [[nodiscard]] static std::uint64_t bytes_of_both(const bucket_store& store, neighbour_direction keeps,
        std::span<const partition_id> these, std::span<const partition_id> those) {
        std::uint64_t sum = 0;
        const auto add = [&](std::span<const partition_id> of, std::span<const partition_id> except) {
            const auto excepted = [&](partition_id p) { return std::ranges::binary_search(except, p); };
            for (const partition_id i : of)
                for (const partition_id j : of)
                    if (store.extent({i, j}).edges != 0 && !(excepted(i) && excepted(j)))
                        for_each_side(keeps, [&](edge_direction d) {
                            sum += block_reader::memory_of(store, {{i, j}, d}) +
                                   resident_block::memory_of_ranks(own_size(store, {i, j}, d));
                        });
        };
        add(these, {});
        add(those, these);
        return sum;
    }

    // What follows is called by the loading thread.

    [[nodiscard]] std::unique_ptr<resident_graph> make(const state& s) {
        // The last state of an epoch is kept for the first of the next, unless both do not fit.
        if (bytes_of_both(store_, keeps_, s.resident, resident_) > bytes_) last_.clear();
        blocks now;
        std::vector<block_place> missing;
        for_each_side(keeps_, [&](edge_direction d) {
            for (const partition_id i : s.resident)
                for (const partition_id j : s.resident) {
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
            const auto& [bucket, direction] = missing[i];
            now[missing[i]] = std::make_shared<const resident_block>(std::move(loaded[i].bytes), loaded[i].block,
                own_size(store_, bucket, direction), first_edge_[static_cast<std::size_t>(store_.layout().index(bucket))]);
        }
        std::vector<resident_graph::block> sides[2];
        for_each_side(keeps_, [&](edge_direction d) {
            auto& side = sides[d == edge_direction::in ? 1 : 0];
            for (const partition_id own : s.resident)
                for (const partition_id other : s.resident) {
                    const edge_bucket bucket = d == edge_direction::out ? edge_bucket{own, other} : edge_bucket{other, own};
                    const auto found = now.find({bucket, d});
                    side.push_back(found == now.end() ? nullptr : found->second);
                }
        });
        last_ = std::move(now);
        resident_ = s.resident;
        return std::make_unique<resident_graph>(
            store_.rows(), s.resident, keeps_, std::move(sides[0]), std::move(sides[1]));
    }

    const bucket_store& store_;
    neighbour_direction keeps_;
    std::uint64_t bytes_;
    memory_charge charge_;
    std::vector<edge_index> first_edge_; // of each bucket, among all edges

    block_reader reader_; // the loading thread's from here on
    blocks last_;                        // of the state made last
    std::vector<partition_id> resident_; // its partitions

    std::optional<detail::state_loader<resident_graph>> loader_; // last: its thread uses the rest
};

} // namespace gneiss
