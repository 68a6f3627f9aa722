// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/detail/check_plan.hpp>
#include <gneiss/storage/detail/growing_charge.hpp>
#include <gneiss/storage/detail/state_prefetcher.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/feature/feature_reader.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// The features of the resident partitions of one state. Blocks are shared: two states with a common partition hold it
/// once, and each block lives until its last user drops it. Immutable, thread-safe.
class resident_features {
public:
    using block = std::shared_ptr<const feature_block>; ///< shared block of a partition

    /// \param blocks  by partition; null: not resident
    /// The store must outlive this. Throws errc::invalid_argument unless there is a block or null for each partition.
    resident_features(const feature_store& store, std::vector<block> blocks)
        : store_(store),
          blocks_(std::move(blocks)) {
        if (blocks_.size() != store.rows().partitions)
            throw error(errc::invalid_argument,
                std::to_string(blocks_.size()) + " blocks for " + std::to_string(store.rows().partitions) +
                    " partitions");
    }
    resident_features(const feature_store&&, std::vector<block>) = delete; // the store must outlive this

    /// Returns the number of columns.
    [[nodiscard]] std::uint64_t columns() const noexcept { return store_.columns(); }
    /// True if rows are sparse.
    [[nodiscard]] bool sparse() const noexcept { return store_.sparse(); }
    /// True if the partition is resident; false beyond the partitions.
    [[nodiscard]] bool resident(partition_id p) const noexcept { return p < blocks_.size() && blocks_[p] != nullptr; }

    /// Gathers as floats: out[i] = features of node ids[i], out [ids, columns]. Throws errc::invalid_argument for
    /// another shape of `out`, or sparse features; errc::out_of_range for an id beyond the nodes, or a node that is not
    /// resident.
    template <executor E>
    void gather(const E& executor, std::span<const node_id> ids, matrix_view<float> out) const {
        if (sparse() || out.rows() < ids.size() || out.columns() != columns())
            throw error(errc::invalid_argument,
                "features [" + std::to_string(ids.size()) + ", " + std::to_string(columns()) + "] do not go to [" +
                    std::to_string(out.rows()) + ", " + std::to_string(out.columns()) +
                    (sparse() ? "], they are sparse" : "]"));
        check_rows(ids, store_.rows().nodes);
        const std::size_t row_bytes = store_.row_bytes();
        parallel_for(executor, ids.size(), 1024, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const auto [from, row] = place(ids[i]);
                decode_row(store_.type(), from.stored_values() + row * row_bytes, out[i]);
                if (store_.normalized()) normalize_row(out[i]);
            }
        });
    }
    /// The same for sparse rows; they are never expanded. Reuses the memory of `to`.
    /// Throws errc::out_of_range for 2³² entries or more, an id beyond the nodes, or a node that is not resident;
    /// errc::invalid_argument for dense features.
    template <executor E>
    void gather(const E& executor, std::span<const node_id> ids, sparse_feature_rows& to) const {
        if (!sparse()) throw error(errc::invalid_argument, "features are dense, but sparse rows were requested");
        check_rows(ids, store_.rows().nodes);
        to.offsets.resize(ids.size() + 1);
        parallel_for(executor, ids.size(), 1024, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const auto [from, row] = place(ids[i]);
                to.offsets[i] = from.offsets()[row + 1] - from.offsets()[row];
            }
        });
        to.offsets.back() = 0;
        const std::uint64_t nnz = exclusive_scan(executor, to.offsets);
        if (nnz >> 32 != 0) throw error(errc::out_of_range, "the rows of a batch have 2^32 features or more");
        const bool ones = store_.file(feature_part::values).path.empty();
        resize_discard(to.columns, static_cast<std::size_t>(nnz));
        resize_discard(to.values, ones && !store_.normalized() ? 0 : static_cast<std::size_t>(nnz));
        parallel_for(executor, ids.size(), 1024, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const auto [from, row] = place(ids[i]);
                const auto first = static_cast<std::size_t>(from.offsets()[row] - from.offsets().front());
                const auto at = static_cast<std::size_t>(to.offsets[i]),
                           count = static_cast<std::size_t>(to.offsets[i + 1]) - at;
                std::copy_n(from.indices().data() + first, count, to.columns.data() + at);
                if (to.values.empty()) continue;
                const std::span<float> values = std::span(to.values).subspan(at, count);
                if (ones)
                    std::ranges::fill(values, 1.0F);
                else
                    decode_row(store_.type(), from.stored_values() + first * store_.value_bytes(), values);
                if (store_.normalized()) normalize_row(values);
            }
        });
    }

private:
    [[nodiscard]] std::pair<const feature_block&, std::size_t> place(node_id node) const {
        const partition_id p = store_.rows().of(node);
        if (blocks_[p] == nullptr)
            throw error(errc::out_of_range,
                "node " + std::to_string(node) + " is of partition " + std::to_string(p) + ", which is not resident");
        return {*blocks_[p], static_cast<std::size_t>(node - store_.rows().begin(p))};
    }

    const feature_store& store_;
    std::vector<block> blocks_;
};

/// Holds the features of the current state's partitions and loads those of the next one in the background, verified.
///
///     const feature_store store(data.features().files(), data.rows());   // a dataset
///     feature_buffer features(store, engines, feature_buffer::need(plan, store).bytes, budget);
///     features.begin_epoch(plan);
///     for (std::uint32_t i = 0; i < plan.size(); ++i) features.acquire(i)->gather(executor, ids, out);
///
/// A swap reads new partitions and drops those without a user; partitions that both states have are shared, also from
/// the last state of an epoch to the first of the next. With all partitions resident each is read once.
/// Memory: `need`, charged to the budget. Thread-safety: one thread acquires states; features may be dropped on
/// any. Errors of the background thread are rethrown by `acquire`: io_error; errc::corrupt with path and offset.
///
/// From examples/16_graph_network.cpp:
/// \snippet 16_graph_network.cpp buffers
class feature_buffer {
public:
    /// \param store  outlives this
    /// \param bytes  `need` of the plans to come; a plan with a state that takes more charges the difference
    /// when it
    ///               begins. Throws over_budget
    /// \param trace  gets a track of the loading thread; outlives this
    feature_buffer(const feature_store& store, engine_factory engines, std::uint64_t bytes, memory_budget& budget,
        trace_recorder* trace = nullptr)
        : store_(store),
          charge_(budget, need(bytes)),
          reader_(store, std::move(engines)),
          last_(store.rows().partitions) {
        loader_.emplace([this](const buffer_state& s) { return make(s); },
            [this](const buffer_state& s) { return fits_beside_last(s); }, open_track(trace, "feature loader"),
            "load features");
    }

    feature_buffer(const feature_store&&, engine_factory, std::uint64_t, memory_budget&,
        trace_recorder* = nullptr) = delete; // the store must outlive the buffer

    /// Returns the memory of a buffer of `bytes`.
    [[nodiscard]] static memory_need need(std::uint64_t bytes) { return {"features", bytes}; }
    /// Returns the memory of a plan: the most that the partitions of two consecutive states take together.
    /// Throws errc::invalid_argument for a plan of other partitions.
    [[nodiscard]] static memory_need need(const epoch_plan& states, const feature_store& store) {
        detail::check_plan(states, store.rows().partitions);
        std::uint64_t most = 0;
        for (std::size_t s = 0; s < states.size(); ++s)
            most = std::max(most, bytes_of_both(store, states[s].resident, states[s == 0 ? 0 : s - 1].resident));
        return need(most);
    }

    /// Returns the store that it reads.
    [[nodiscard]] const feature_store& store() const noexcept { return store_; }

    /// Starts an epoch at `first_state`; loading begins at once, or when no features of an earlier epoch are held.
    /// Throws errc::invalid_argument for a plan of other partitions; over_budget, with the bytes of all charges, for a
    /// state that the budget has no room for.
    void begin_epoch(const epoch_plan& states, std::uint32_t first_state = 0) {
        detail::check_plan(states, store_.rows().partitions);
        for (std::size_t s = first_state; s < states.size(); ++s)
            charge_.at_least(bytes_of_both(store_, states[s].resident, {}));
        loader_->begin(states, first_state);
    }

    /// Returns the features of state `index`. States are acquired in order, once each; it waits while the features of
    /// two states are held. Rethrows errors of loading; throws errc::canceled; errc::invalid_argument for another state
    /// than the next one.
    /// Precondition, not checked: the features are dropped before this.
    [[nodiscard]] std::shared_ptr<const resident_features> acquire(
        std::uint32_t index, const std::stop_token& stop = {}) {
        return loader_->acquire(index, stop);
    }

    /// Frees the memory but keeps the budget charge, so the owner may reuse it until the next epoch begins. Waits until
    /// no features are held.
    void release() {
        loader_->forget([this] {
            std::ranges::fill(last_, nullptr);
            resident_.clear();
        });
    }

    /// Returns true if state `index` is loaded, or beyond the plan; false if it was acquired.
    [[nodiscard]] bool ready(std::uint32_t index) const { return loader_->ready(index); }

    [[nodiscard]] io_stats statistics() const {
        const std::scoped_lock lock(statistics_mutex_);
        return statistics_;
    }

private:
    [[nodiscard]] static std::uint64_t bytes_of_both(
        const feature_store& store, std::span<const partition_id> these, std::span<const partition_id> those) {
        std::uint64_t sum = 0;
        for (const partition_id p : these) sum += feature_reader::bytes_needed(store, p);
        for (const partition_id p : those)
            if (!std::ranges::binary_search(these, p)) sum += feature_reader::bytes_needed(store, p);
        return sum;
    }

    // The functions below are called by the loading thread.

    [[nodiscard]] bool fits_beside_last(const buffer_state& s) const {
        return bytes_of_both(store_, s.resident, resident_) <= charge_.bytes();
    }
    [[nodiscard]] std::unique_ptr<resident_features> make(const buffer_state& s) {
        if (!fits_beside_last(s)) std::ranges::fill(last_, nullptr); // without a user
        std::vector<resident_features::block> now(last_.size());
        std::vector<partition_id> missing;
        for (const partition_id p : s.resident) {
            now[p] = last_[p];
            if (!now[p]) missing.push_back(p);
        }
        read(missing, now);
        last_ = now;
        resident_ = s.resident;
        return std::make_unique<resident_features>(store_, std::move(now));
    }

    void read(std::span<const partition_id> missing, std::vector<resident_features::block>& to) {
        if (missing.empty()) return;
        std::vector<feature_block> result(missing.size());
        reader_.read(missing, result);
        {
            const std::scoped_lock lock(statistics_mutex_);
            loader_->moved(reader_.statistics().read_bytes - statistics_.read_bytes);
            statistics_ = reader_.statistics();
        }
        for (std::size_t i = 0; i < missing.size(); ++i)
            to[missing[i]] = std::make_shared<const feature_block>(std::move(result[i]));
    }

    const feature_store& store_;
    detail::growing_charge charge_;
    mutable std::mutex statistics_mutex_;
    io_stats statistics_;

    feature_reader reader_;                      // loading thread only, with the members below
    std::vector<resident_features::block> last_; // blocks of the state made last, by partition
    std::vector<partition_id> resident_;         // its partitions

    std::optional<detail::state_prefetcher<resident_features>> loader_; // last: its thread uses the rest
};

} // namespace gneiss
