// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/detail/check_plan.hpp>
#include <gneiss/storage/detail/growing_charge.hpp>
#include <gneiss/storage/detail/state_prefetcher.hpp>

namespace gneiss {

/// The edges of one state: those of its buckets, in the state's order. Read-only, shared by the batches cut from it.
class state_edges {
public:
    /// Edges of the state's bucket `i`, in their stored order.
    [[nodiscard]] std::span<const edge> bucket(std::size_t i) const noexcept { return buckets_[i]->span(); }
    [[nodiscard]] std::size_t buckets() const noexcept { return buckets_.size(); }
    /// Number of edges of each bucket.
    [[nodiscard]] std::span<const edge_index> sizes() const noexcept { return sizes_; }
    [[nodiscard]] edge_index size() const noexcept { return first_.back(); }
    /// Edge `position` of the state, buckets one after the other. O(log buckets). Precondition: position < size().
    [[nodiscard]] const edge& operator[](edge_index position) const noexcept {
        const auto next = std::upper_bound(first_.begin() + 1, first_.end() - 1, position);
        const auto i = static_cast<std::size_t>(next - first_.begin()) - 1;
        return (*buckets_[i])[static_cast<std::size_t>(position - first_[i])];
    }

private:
    friend class edge_buffer;
    using edges = aligned_buffer<edge, 64>;

    void add(std::shared_ptr<const edges> bucket) {
        sizes_.push_back(bucket->size());
        first_.push_back(first_.back() + bucket->size());
        buckets_.push_back(std::move(bucket));
    }

    std::vector<std::shared_ptr<const edges>> buckets_;
    std::vector<edge_index> sizes_;
    std::vector<edge_index> first_{0};
};

/// Where a bucket's edges come from: how many there are, and a way to read them into memory of that size. An `edge_buffer` calls
/// them from one thread at a time.
struct edge_loader {
    std::function<edge_index(edge_bucket)> size;
    std::function<void(edge_bucket, std::span<edge>)> load;
    std::optional<row_partitioning> rows{}; ///< into which the buckets cut the nodes, where known: compared at construction of a trainer
    /// Many buckets at once, each into its span, where that is faster; empty: they are loaded one by one.
    std::function<void(std::span<const edge_bucket>, std::span<const std::span<edge>>)> load_many{};
};

struct edge_buffer_options {
    std::uint32_t partitions = 0; ///< into which the nodes are cut; 0: as the loader's `rows` say
    bool cache_all = false;       ///< each bucket is loaded once and stays; else those of two states
    std::uint64_t bytes = 0;      ///< charged at construction: what `bytes_needed` says for the plans to come
    trace_recorder* trace = nullptr; ///< gets a track of the loading thread; outlives the buffer
};

/// Holds the edges of the current state and loads those of the next one meanwhile; or, with `cache_all`, all edges once.
///
/// At most two states are in memory: the third waits until the last batch of the first was cut. Buckets are loaded in the
/// order of the plan by one background thread.
/// Memory: see `bytes_needed`; what a plan needs is charged to the budget before it is loaded. Where the budget has room for one
/// state only, the next is loaded when that is gone. Thread-safety: one thread asks for states; a state's edges may be
/// dropped on any thread. Errors of the background thread are rethrown by `acquire`.
class edge_buffer {
public:
    /// A plan that needs more than `options.bytes`, as a randomized order may, charges the rest when it begins.
    /// Throws over_budget; errc::invalid_argument for partitions that neither says, or that options and loader say differently.
    edge_buffer(edge_loader source, const edge_buffer_options& options, memory_budget& budget)
        : source_(std::move(source)),
          partitions_(partitions_of(source_, options)),
          cache_all_(options.cache_all),
          charge_(budget, "edges", options.bytes),
          counted_(cache_all_ ? std::size_t{partitions_} * partitions_ : 0),
          cached_(counted_.size()),
          loader_([this](const buffer_state& s) { return load(s.edge_buckets); }, [this](const buffer_state& s) { return fits_beside_last(s); },
              open_track(options.trace, "edge loader"), "load edges") {}

    /// What a plan needs: the largest sum of two consecutive states; with `cache_all` all of its buckets, each once [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(const epoch_plan& states, const edge_loader& source, const edge_buffer_options& options = {}) {
        std::uint64_t most = 0, before = 0;
        if (options.cache_all) {
            std::set<edge_bucket> seen;
            for (const buffer_state& s : states)
                for (const edge_bucket& b : s.edge_buckets)
                    if (seen.insert(b).second) most += source.size(b);
            return most * sizeof(edge);
        }
        for (const buffer_state& s : states) {
            std::uint64_t edges = 0;
            for (const edge_bucket& b : s.edge_buckets) edges += source.size(b);
            most = std::max(most, before + edges);
            before = edges;
        }
        return most * sizeof(edge);
    }

    /// Starts an epoch at `first_state`; loading begins at once. Precondition: no edges of an earlier epoch are held.
    /// Throws errc::invalid_argument for a plan of other partitions; over_budget for one with a state that the budget has no room
    /// for, with the bytes of all that is charged, and then nothing is loaded.
    void begin_epoch(const epoch_plan& states, std::uint32_t first_state = 0) {
        detail::check_plan(states, partitions_);
        charge(states, first_state);
        loader_.begin(states, first_state);
    }

    /// Announces the partitions in which those who train have the nodes. Throws errc::invalid_argument for others than the edges
    /// are bucketed by; where the loader does not say which, `acquire` does for an edge that is in the wrong bucket: O(1) an edge,
    /// when it is loaded. Precondition: no epoch is running.
    void expect(const row_partitioning& rows) {
        const std::scoped_lock lock(source_turn_);
        if (source_.rows) return check_same_partitions(*source_.rows, "edges", rows, "embeddings and graph");
        if (rows.partitions != partitions_)
            throw error(errc::invalid_argument, "edges are in " + std::to_string(partitions_) + " partitions, embeddings and graph in " +
                                                    std::to_string(rows.partitions));
        if (expected_) check_same_partitions(*expected_, "edges", rows, "embeddings and graph");
        expected_ = rows;
    }

    /// The edges of state `index`. States are asked for in order. Throws what loading threw, or errc::canceled.
    [[nodiscard]] std::shared_ptr<const state_edges> acquire(std::uint32_t index, const std::stop_token& stop = {}) {
        return loader_.acquire(index, stop);
    }

private:
    [[nodiscard]] static std::uint32_t partitions_of(const edge_loader& source, const edge_buffer_options& options) {
        if (!source.rows && options.partitions == 0)
            throw error(errc::invalid_argument, "an edge buffer needs the number of partitions where the loader does not know it", {.field = "partitions"});
        if (source.rows && options.partitions != 0 && options.partitions != source.rows->partitions)
            throw error(errc::invalid_argument, "edges are in " + std::to_string(source.rows->partitions) + " partitions, an edge buffer was made for " +
                                                    std::to_string(options.partitions), {.field = "partitions"});
        return options.partitions != 0 ? options.partitions : source.rows->partitions;
    }
    [[nodiscard]] std::size_t index(edge_bucket b) const noexcept { return std::size_t{b.first} * partitions_ + b.second; }
    [[nodiscard]] std::uint64_t bytes_of(const buffer_state& s) const {
        const std::scoped_lock lock(source_turn_);
        std::uint64_t edges = 0;
        for (const edge_bucket& b : s.edge_buckets) edges += source_.size(b);
        return edges * sizeof(edge);
    }

    /// Charges what two consecutive states take beyond what is charged, or else what one does; or all buckets of the plan that
    /// were in none before.
    void charge(const epoch_plan& states, std::uint32_t first_state) {
        std::uint64_t one = 0, two = 0, before = 0;
        if (cache_all_) {
            const std::scoped_lock lock(source_turn_);
            for (std::size_t s = first_state; s < states.size(); ++s)
                for (const edge_bucket& b : states[s].edge_buckets)
                    if (const auto i = index(b); !counted_[i]) {
                        counted_[i] = true;
                        counted_bytes_ += source_.size(b) * sizeof(edge);
                    }
            one = two = counted_bytes_;
        } else {
            for (std::size_t s = first_state; s < states.size(); ++s) {
                const std::uint64_t now = bytes_of(states[s]);
                one = std::max(one, now);
                two = std::max(two, before + now);
                before = now;
            }
        }
        try {
            charge_.at_least(two);
        } catch (const over_budget&) {
            charge_.at_least(one);
        }
    }

    /// The loading thread's.
    [[nodiscard]] bool fits_beside_last(const buffer_state& s) const { return cache_all_ || last_bytes_ + bytes_of(s) <= charge_.bytes(); }

    [[nodiscard]] std::unique_ptr<state_edges> load(const std::vector<edge_bucket>& wanted) {
        auto result = std::make_unique<state_edges>();
        std::uint64_t fresh_bytes = 0;
        last_bytes_ = 0;
        for (std::size_t first = 0; first < wanted.size(); first += at_once)
            load(std::span(wanted).subspan(first, std::min(at_once, wanted.size() - first)), *result, fresh_bytes);
        loader_.moved(fresh_bytes);
        return result;
    }
    void load(std::span<const edge_bucket> wanted, state_edges& to, std::uint64_t& fresh_bytes) {
        const std::scoped_lock lock(source_turn_);
        std::vector<std::shared_ptr<const state_edges::edges>> here(wanted.size());
        std::vector<edge_bucket> missing;
        std::vector<std::span<edge>> memory;
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const edge_bucket b = wanted[i];
            if (cache_all_) here[i] = cached_[index(b)];
            if (!here[i]) {
                auto fresh = std::make_shared<state_edges::edges>(static_cast<std::size_t>(source_.size(b)));
                if (!fresh->empty()) {
                    missing.push_back(b);
                    memory.push_back(fresh->span());
                    fresh_bytes += fresh->size_bytes();
                }
                here[i] = std::move(fresh);
            }
        }
        if (source_.load_many && !missing.empty())
            source_.load_many(missing, memory);
        else
            for (std::size_t i = 0; i < missing.size(); ++i) source_.load(missing[i], memory[i]);
        if (expected_)
            for (std::size_t i = 0; i < missing.size(); ++i) check(missing[i], memory[i]);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            if (cache_all_) cached_[index(wanted[i])] = here[i];
            last_bytes_ += here[i]->size_bytes();
            to.add(std::move(here[i]));
        }
    }

    /// Throws unless the edges lead from the first partition of a bucket to the second.
    void check(edge_bucket b, std::span<const edge> edges) const {
        const auto outside = [&](node_id v, partition_id p) { return v < expected_->begin(p) || v >= expected_->begin(p + 1); };
        for (const edge& e : edges)
            if (outside(e.source, b.first) || outside(e.destination, b.second))
                throw error(errc::invalid_argument, "edge (" + std::to_string(e.source) + ", " + std::to_string(e.relation) + ", " +
                                                        std::to_string(e.destination) + ") is in bucket (" + std::to_string(b.first) + ", " +
                                                        std::to_string(b.second) + "), whose nodes in " + std::to_string(partitions_) +
                                                        " partitions are others");
    }

    static constexpr std::size_t at_once = 1024; // buckets that a turn at the source loads

    mutable std::mutex source_turn_; // an epoch may begin while a bucket of one that was given up is loaded
    edge_loader source_;
    std::optional<row_partitioning> expected_; // where the loader does not say
    std::uint32_t partitions_;
    bool cache_all_;
    detail::growing_charge charge_;
    std::vector<bool> counted_; // buckets in plans so far, where all edges are kept
    std::uint64_t counted_bytes_ = 0;
    std::vector<std::shared_ptr<const state_edges::edges>> cached_; // loader thread only, with what follows
    std::uint64_t last_bytes_ = 0;                                  // of the state made last

    detail::state_prefetcher<state_edges> loader_; // last: its thread uses the rest
};

} // namespace gneiss
