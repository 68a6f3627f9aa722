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
    /// Returns the edges of the state's bucket `i`, in their stored order. Precondition, not checked: i < buckets().
    [[nodiscard]] std::span<const edge> bucket(std::size_t i) const noexcept { return buckets_[i]->span(); }
    /// Returns the number of buckets.
    [[nodiscard]] std::size_t buckets() const noexcept { return buckets_.size(); }
    /// Returns the number of edges of each bucket.
    [[nodiscard]] std::span<const edge_index> sizes() const noexcept { return sizes_; }
    /// Returns the number of edges.
    [[nodiscard]] edge_index size() const noexcept { return first_.back(); }
    /// Returns edge `position` of the state, buckets concatenated. O(log buckets). Precondition, not checked: position
    /// < size(); else it reads out of bounds.
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

/// Source of a bucket's edges: their number, and a function that reads them into memory of that size. An `edge_buffer`
/// calls them from one thread at a time.
struct edge_loader {
    std::function<edge_index(edge_bucket)> size;            ///< returns the number of edges of a bucket
    std::function<void(edge_bucket, std::span<edge>)> load; ///< reads the edges of a bucket
    std::optional<row_partitioning>
        rows{}; ///< partitioning of the buckets, if known: a trainer's constructor compares it
    /// Loads several buckets at once, each into its span, if that is faster; empty: they are loaded one by one.
    std::function<void(std::span<const edge_bucket>, std::span<const std::span<edge>>)> load_many{};
};

/// Options of `edge_buffer`.
struct edge_buffer_options {
    std::uint32_t partitions = 0;    ///< number of node partitions; 0: that of the loader's `rows`
    bool cache_all = false;          ///< load each bucket once and keep it; else keep those of two states
    std::uint64_t bytes = 0;         ///< charged at construction: `need` of the plans to come
    trace_recorder* trace = nullptr; ///< gets a track of the loading thread; outlives the buffer
};

/// Holds the edges of the current state and loads those of the next one in the background; or, with `cache_all`, all
/// edges once.
///
///     const edge_loader source = reader.source();   // a bucket_reader
///     edge_buffer edges(source, {.bytes = edge_buffer::need(plan, source).bytes}, budget);
///     edges.begin_epoch(plan);
///     for (std::uint32_t i = 0; i < plan.size(); ++i) train_on(*edges.acquire(i));
///
/// At most two states are in memory: the third waits until the last batch of the first is cut. One background thread
/// loads buckets in the order of the plan.
/// Memory: see `need`; the memory of a plan is charged to the budget before loading. If the budget has room for
/// one state only, the next is loaded when that is gone. Thread-safety: one thread acquires states; a state's edges may
/// be dropped on any thread. Errors of the background thread are rethrown by `acquire`.
///
/// From examples/25_own_pipeline.cpp:
/// \snippet 25_own_pipeline.cpp buffers
class edge_buffer {
public:
    /// A plan that needs more than `options.bytes`, as a randomized order may, charges the difference when it begins.
    /// Throws over_budget; errc::invalid_argument if the loader has no `size`, or if the number of partitions is
    /// unknown, or differs between options and loader.
    edge_buffer(edge_loader source, const edge_buffer_options& options, memory_budget& budget)
        : source_(checked(std::move(source))),
          partitions_(partitions_of(source_, options)),
          cache_all_(options.cache_all),
          charge_(budget, need(options)),
          counted_(cache_all_ ? std::size_t{partitions_} * partitions_ : 0),
          cached_(counted_.size()),
          loader_([this](const buffer_state& s) { return load(s.edge_buckets); },
              [this](const buffer_state& s) { return fits_beside_last(s); }, open_track(options.trace, "edge loader"),
              "load edges") {}

    /// Returns the memory of a buffer of `options.bytes`.
    [[nodiscard]] static memory_need need(const edge_buffer_options& options) { return {"edges", options.bytes}; }
    /// Returns the memory of a plan: the largest sum of two consecutive states; with `cache_all` all of its buckets,
    /// each once. Needs no `load`. Throws as the constructor and `begin_epoch`.
    [[nodiscard]] static memory_need need(
        const epoch_plan& states, const edge_loader& source, const edge_buffer_options& options = {}) {
        if (!source.size) refuse();
        if (source.rows || options.partitions != 0) detail::check_plan(states, partitions_of(source, options));
        std::uint64_t most = 0, before = 0;
        if (options.cache_all) {
            std::set<edge_bucket> seen;
            for (const buffer_state& s : states)
                for (const edge_bucket& b : s.edge_buckets)
                    if (seen.insert(b).second) most += source.size(b);
            return need({.bytes = most * sizeof(edge)});
        }
        for (const buffer_state& s : states) {
            std::uint64_t edges = 0;
            for (const edge_bucket& b : s.edge_buckets) edges += source.size(b);
            most = std::max(most, before + edges);
            before = edges;
        }
        return need({.bytes = most * sizeof(edge)});
    }

    /// Starts an epoch at `first_state`; loading begins at once, or when no edges of an earlier epoch are held.
    /// Throws errc::invalid_argument for a plan of other partitions; over_budget, with the bytes of all charges, for a
    /// state that the budget has no room for; then nothing is loaded.
    void begin_epoch(const epoch_plan& states, std::uint32_t first_state = 0) {
        detail::check_plan(states, partitions_);
        charge(states, first_state);
        loader_.begin(states, first_state);
    }

    /// Announces the partitioning of the trainer's nodes. Throws errc::invalid_argument if it is not that of the edges;
    /// if the loader has no `rows`, `acquire` throws for an edge in the wrong bucket instead: O(1) per edge, on load.
    /// No epoch may be running: that is not checked, and its edges then are or are not.
    void expect(const row_partitioning& rows) {
        const std::scoped_lock lock(source_turn_);
        if (source_.rows) return check_same_partitions(*source_.rows, "edges", rows, "embeddings and graph");
        if (rows.partitions != partitions_)
            throw error(errc::invalid_argument,
                "edges are in " + std::to_string(partitions_) + " partitions, embeddings and graph in " +
                    std::to_string(rows.partitions));
        if (expected_) check_same_partitions(*expected_, "edges", rows, "embeddings and graph");
        expected_ = rows;
    }

    /// Returns the edges of state `index`. States are acquired in order, once each; it waits while the edges of two
    /// states are held. Rethrows errors of loading; throws errc::canceled; errc::invalid_argument for another state
    /// than the next one.
    /// Precondition, not checked: the edges are dropped before this.
    [[nodiscard]] std::shared_ptr<const state_edges> acquire(std::uint32_t index, const std::stop_token& stop = {}) {
        return loader_.acquire(index, stop);
    }

private:
    [[noreturn]] static void refuse() {
        throw error(errc::invalid_argument,
            "an edge loader needs functions that return the size of a bucket and load it", {.field = "edge_loader"});
    }
    [[nodiscard]] static edge_loader checked(edge_loader source) {
        if (!source.size) refuse(); // `load` is for buckets that have edges
        return source;
    }
    [[nodiscard]] static std::uint32_t partitions_of(const edge_loader& source, const edge_buffer_options& options) {
        if (!source.rows && options.partitions == 0)
            throw error(errc::invalid_argument,
                "an edge buffer needs the number of partitions where the loader does not know it",
                {.field = "partitions"});
        if (source.rows && options.partitions != 0 && options.partitions != source.rows->partitions)
            throw error(errc::invalid_argument,
                "edges are in " + std::to_string(source.rows->partitions) +
                    " partitions, an edge buffer was made for " + std::to_string(options.partitions),
                {.field = "partitions"});
        return options.partitions != 0 ? options.partitions : source.rows->partitions;
    }
    [[nodiscard]] std::size_t index(edge_bucket b) const noexcept {
        return std::size_t{b.first} * partitions_ + b.second;
    }
    [[nodiscard]] std::uint64_t bytes_of(const buffer_state& s) const {
        const std::scoped_lock lock(source_turn_);
        std::uint64_t edges = 0;
        for (const edge_bucket& b : s.edge_buckets) edges += source_.size(b);
        return edges * sizeof(edge);
    }

    /// Charges the missing memory of two consecutive states, or else of one; or of all buckets that no earlier plan
    /// had.
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

    /// Returns true if a state fits together with the last one; loading thread only.
    [[nodiscard]] bool fits_beside_last(const buffer_state& s) const {
        return cache_all_ || last_bytes_ + bytes_of(s) <= charge_.bytes();
    }

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
        if (!missing.empty() && !source_.load && !source_.load_many) refuse();
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
        const auto outside = [&](node_id v, partition_id p) {
            return v < expected_->begin(p) || v >= expected_->begin(p + 1);
        };
        for (const edge& e : edges)
            if (outside(e.source, b.first) || outside(e.destination, b.second))
                throw error(errc::invalid_argument,
                    "edge (" + std::to_string(e.source) + ", " + std::to_string(e.relation) + ", " +
                        std::to_string(e.destination) + ") is in bucket (" + std::to_string(b.first) + ", " +
                        std::to_string(b.second) + "), but belongs to another bucket of " +
                        std::to_string(partitions_) + " partitions");
    }

    static constexpr std::size_t at_once = 1024; // buckets loaded per lock of the source

    mutable std::mutex source_turn_; // an epoch may begin while a bucket of an abandoned one is loaded
    edge_loader source_;
    std::optional<row_partitioning> expected_; // if the loader has no `rows`
    std::uint32_t partitions_;
    bool cache_all_;
    detail::growing_charge charge_;
    std::vector<bool> counted_; // buckets in plans so far, with `cache_all`
    std::uint64_t counted_bytes_ = 0;
    std::vector<std::shared_ptr<const state_edges::edges>> cached_; // loading thread only, with the members below
    std::uint64_t last_bytes_ = 0;                                  // bytes of the state made last

    detail::state_prefetcher<state_edges> loader_; // last: its thread uses the rest
};

} // namespace gneiss
