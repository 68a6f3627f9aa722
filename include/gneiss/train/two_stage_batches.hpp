// SPDX-License-Identifier: Apache-2.0
// Sampling in two stages: macro-batches, made one ahead.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gneiss/cache/slot_table.hpp>
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/sample/node_batches.hpp>
#include <gneiss/storage/detail/state_prefetcher.hpp>
#include <gneiss/storage/feature/sparse_rows.hpp>
#include <gneiss/train/driven_batch.hpp>
#include <gneiss/train/features.hpp>
#include <gneiss/train/macro_batch_device.hpp>

namespace gneiss {

/// Writes the nodes of macro-batch `index` of an epoch, whose plan has `state` there, ascending: a pure function,
/// called by the loading thread just before these nodes are sampled.
using nodes_of_large_batch = std::function<void(
    std::uint64_t epoch, std::uint64_t index, const buffer_state& state, std::vector<node_id>& nodes)>;

/// Options of macro-batches.
struct macro_batch_options {
    second_stage form = second_stage::hops; ///< lists that batches are sampled from
    std::uint64_t rows = 0;                 ///< rows of dense features held at once, those of two macro-batches
    /// most of a macro-batch without those rows [bytes]: lists, ids, sparse rows; more is an error; 0: no bound
    std::uint64_t bytes = 0;
    bool delta = true;               ///< rows that the macro-batch before holds stay, and are not read again
    trace_recorder* trace = nullptr; ///< gets a track of the loading thread; outlives the buffer
    /// true for nodes of a macro-batch outside of its partitions; none: all are inside. Called by the loading thread.
    std::function<bool(node_id)> outside{};
    /// called by the loading thread with each macro-batch, before it is acquired
    std::function<void(std::uint64_t epoch, std::uint64_t index, const macro_batch&)> made{};
    bool halo_features = false; ///< features of nodes outside are moved, if a batch may read them; else they are zeros
    std::uint64_t batch = 0;    ///< `second_stage::drawn`: most nodes of a batch
    std::uint64_t seed = 0;     ///< `second_stage::drawn`: of the order of nodes
    std::shared_ptr<macro_batch_device> device{}; ///< gets a copy of each macro-batch; null: none does
    bool rows_on_device = false;                  ///< it keeps the rows of dense features, in place of the host
};

/// Macro-batches so far, and what was moved for them.
struct macro_batch_counts {
    std::uint64_t macro_batches = 0; ///< made
    std::uint64_t edges = 0;         ///< of their lists
    std::uint64_t rows = 0;          ///< rows of features, without those that stayed
    std::uint64_t bytes = 0;         ///< lists, ids and rows [bytes]

    macro_batch_counts& operator+=(const macro_batch_counts& other) noexcept {
        macro_batches += other.macro_batches;
        edges += other.edges;
        rows += other.rows;
        bytes += other.bytes;
        return *this;
    }
    friend bool operator==(const macro_batch_counts&, const macro_batch_counts&) = default;
};

/// A macro-batch with the features of its nodes. Immutable while it is shared.
class staged_macro_batch {
public:
    /// Returns the graph.
    [[nodiscard]] const macro_batch& graph() const noexcept { return graph_; }
    /// Returns the place of each node's dense features among the buffer's rows, or those of the device; `no_slot`, or
    /// there the place of zeros: they are not moved. Empty: they are sparse.
    [[nodiscard]] std::span<const cache_slot> slots() const noexcept { return slots_; }
    /// Returns the sparse features of the nodes.
    [[nodiscard]] const sparse_feature_rows& sparse() const noexcept { return sparse_; }
    /// Writes the places of nodes, numbers of the macro-batch.
    void places_of(std::span<const std::uint32_t> nodes, std::vector<cache_slot>& to) const {
        to.resize(nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i) to[i] = slots_[nodes[i]];
    }

private:
    friend class macro_batch_buffer;
    mini_batch_arena arena_;
    macro_batch graph_;
    std::vector<cache_slot> slots_;
    sparse_feature_rows sparse_;
    lease on_device_; // its copy there
};

/// Macro-batches of large batches, made by the first stage of sampling one ahead, on its own thread: the sample of a
/// large batch, and the features of its nodes, moved from the tier that holds everything into a small, fast one.
///
///     macro_batch_buffer buffer(make_sampler(graph, sampler_kind::neighbor, hops, seed), features,
///         [&](auto epoch, auto m, auto&, auto& nodes) {
///             large_batches(training, 100'000, seed, epoch).choose(m, nodes);
///         },
///         {.rows = 4'000'000}, executor, budget);
///
/// The rows of two macro-batches, that in training and the next one, share one table of slots: a row that both hold is
/// read once (`delta`). Rows keep the encoding of their source. All threads work on one macro-batch, and the result
/// does not depend on them.
/// Memory: `need`, charged to the budget; scratch of the sampler in addition. Thread-safety: one thread begins epochs
/// and acquires. Errors of the loading thread are rethrown by `acquire`: those of sampler and source, over_budget for a
/// macro-batch beyond the options.
/// Source: Joestar, thesis, §3.1, §5.2 and §5.2.3.
class macro_batch_buffer {
public:
    /// \param first_stage  draws the sample of a large batch: `neighbor_sample`s
    /// \param features     of the nodes, without a cache; what they refer to outlives this
    /// Throws errc::invalid_argument for a cache, for a device that does not keep rows as the options say, or sparse
    /// ones, and for blocks that batches have drawn on a device; over_budget.
    macro_batch_buffer(any_sampler first_stage, const feature_input& features, nodes_of_large_batch nodes,
        const macro_batch_options& options, executor_ref executor, memory_budget& budget)
        : sampler_(std::move(first_stage)),
          features_(features),
          nodes_(std::move(nodes)),
          options_(options),
          executor_(executor),
          charge_(budget.charge(need(options, row_bytes()))),
          held_(~std::uint64_t{0}, sparse() ? 0 : static_cast<std::size_t>(options.rows), slot_table_kind::hashed) {
        if (const auto* rows = std::get_if<feature_rows>(&features); rows != nullptr && rows->cache != nullptr)
            throw error(errc::invalid_argument, "macro-batches hold their rows: the source needs no cache");
        if (options.rows_on_device != (options.device && options.device->keeps_rows()) ||
            (options.rows_on_device && sparse()))
            throw error(errc::invalid_argument, "a device keeps dense rows of all nodes of a macro-batch, if asked");
        if (options.device && options.device->keeps_graphs() && options.form == second_stage::drawn)
            throw error(errc::invalid_argument, "a device draws batches from lists: second_stage::hops or lists");
        if (options.rows_on_device) check_rows_of(*options.device);
        loader_.emplace([this](const buffer_state& s) { return make(s); }, [](const buffer_state&) { return true; },
            open_track(options.trace, "first stage"), "make macro-batch");
    }

    /// Returns the memory: rows with their slots, and two macro-batches. A device's rows are not in it.
    /// \param row_bytes  of a row of dense features; 0: sparse
    [[nodiscard]] static memory_need need(const macro_batch_options& options, std::uint64_t row_bytes) {
        const auto slots = static_cast<std::size_t>(row_bytes == 0 ? 0 : options.rows);
        return {"macro-batches",
            2 * options.bytes + slots * ((options.rows_on_device ? 0 : row_bytes) + list_bytes) +
                slot_table::bytes_needed(~std::uint64_t{0}, slots, slot_table_kind::hashed)};
    }
    /// True if a device has the rows, and `gather` nothing to read.
    [[nodiscard]] bool rows_on_device() const noexcept { return options_.rows_on_device; }
    /// Bytes of a slot in lists of slots and ids.
    static constexpr std::uint64_t list_bytes = 28;
    /// Returns the bytes of a row of dense features as they are held; 0: they are sparse.
    [[nodiscard]] std::uint64_t row_bytes() const {
        if (const auto* rows = std::get_if<feature_rows>(&features_))
            return gneiss::row_bytes(rows->type, rows->columns);
        return sparse() ? 0 : resident().columns() * sizeof(float);
    }
    /// Returns the columns of the features.
    [[nodiscard]] input_columns columns() const {
        if (const auto* rows = std::get_if<feature_rows>(&features_)) return {.dense = rows->columns};
        return detail::columns_of(resident().sparse(), resident().columns());
    }

    /// Starts an epoch of a macro-batch for each state, at number `first`; the first ones are made at once, or when no
    /// macro-batch of an earlier epoch is held.
    void begin_epoch(std::uint64_t epoch, const epoch_plan& states, std::uint32_t first) {
        loader_->begin(
            states.size(),
            [this, epoch, plan = states](std::uint64_t index) { // called by the loading thread, before `make`
                epoch_ = epoch;
                index_ = index;
                return plan[static_cast<std::size_t>(index)];
            },
            first);
    }
    /// Returns macro-batch `index`, in order, once each. Waits while two are held. Precondition, not checked: it is
    /// dropped before this.
    [[nodiscard]] std::shared_ptr<const staged_macro_batch> acquire(
        std::uint32_t index, const std::stop_token& stop = {}) {
        return loader_->acquire(index, stop);
    }
    /// True if `acquire(index)` would not wait.
    [[nodiscard]] bool ready(std::uint32_t index) const { return loader_->ready(index); }
    /// Frees the memory but keeps the charge, until the next epoch. Waits until no macro-batch is held.
    void release() {
        loader_->forget([this] {
            rows_ = {};
            scratch_ = {};
            builder_ = {};
            ready_ = ready_ && rows_on_device(); // which keeps them
        });
    }

    /// Writes the features of nodes, numbers of a macro-batch, as floats [nodes, columns]. Any number of threads.
    void gather(const staged_macro_batch& from, std::span<const std::uint32_t> nodes, matrix_view<float> to) const {
        const auto* encoded = std::get_if<feature_rows>(&features_);
        const auto bytes = static_cast<std::size_t>(row_bytes());
        parallel_for(executor_, nodes.size(), 1024, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                if (from.slots()[nodes[i]] == no_slot) {
                    std::ranges::fill(to[i], 0.0F);
                    continue;
                }
                const std::byte* const row = rows_.data() + from.slots()[nodes[i]] * bytes;
                decode_row(encoded != nullptr ? encoded->type : feature_type::f32, row, to[i]);
                if (encoded != nullptr && encoded->normalized) normalize_row(to[i]);
            }
        });
    }
    /// The same for sparse features. Reuses the memory of `to`.
    void gather(const staged_macro_batch& from, std::span<const std::uint32_t> nodes, sparse_feature_rows& to) const {
        const sparse_feature_rows& all = from.sparse();
        to.offsets.resize(nodes.size() + 1);
        to.offsets[0] = 0;
        for (std::size_t i = 0; i < nodes.size(); ++i)
            to.offsets[i + 1] = to.offsets[i] + all.offsets[nodes[i] + std::size_t{1}] - all.offsets[nodes[i]];
        resize_discard(to.columns, static_cast<std::size_t>(to.offsets.back()));
        resize_discard(to.values, all.values.empty() ? 0 : static_cast<std::size_t>(to.offsets.back()));
        parallel_for(executor_, nodes.size(), 1024, [&](std::size_t i, std::size_t end) {
            for (; i < end; ++i) {
                const auto first = static_cast<std::size_t>(all.offsets[nodes[i]]),
                           count = static_cast<std::size_t>(all.offsets[nodes[i] + std::size_t{1}]) - first,
                           at = static_cast<std::size_t>(to.offsets[i]);
                std::copy_n(all.columns.data() + first, count, to.columns.data() + at);
                if (!to.values.empty()) std::copy_n(all.values.data() + first, count, to.values.data() + at);
            }
        });
    }

    /// Returns the macro-batches so far, also those made ahead.
    [[nodiscard]] macro_batch_counts statistics() const {
        const std::scoped_lock lock(mutex_);
        return counts_;
    }

private:
    [[nodiscard]] const resident_features& resident() const {
        return *std::get<std::shared_ptr<const resident_features>>(features_);
    }
    [[nodiscard]] bool sparse() const { return features_.index() == 1 && resident().sparse(); }

    // The functions below are called by the loading thread.

    [[nodiscard]] std::unique_ptr<staged_macro_batch> make(const buffer_state& state) {
        auto made = std::make_unique<staged_macro_batch>();
        const std::uint64_t index = index_;
        nodes_(epoch_, index, state, large_);
        const batch_key key{epoch_, {static_cast<std::uint32_t>(index), 0, ~std::uint64_t{0}}}; // of no batch
        made->arena_.limit(static_cast<std::size_t>(options_.bytes));
        made->graph_ = macro_batch(sample(key, made->arena_));
        macro_batch_counts count{.macro_batches = 1, .edges = made->graph_.edges(), .bytes = made->graph_.bytes()};
        if (columns().total() != 0) {
            if (sparse())
                stage_sparse(index, *made, count);
            else
                stage_dense(index, *made, count);
        }
        if (options_.device) made->on_device_ = options_.device->put(epoch_, index, made->graph_, made->slots_);
        if (options_.made) options_.made(epoch_, index, made->graph_);
        loader_->moved(count.bytes);
        const std::scoped_lock lock(mutex_);
        counts_ += count;
        return made;
    }

    /// Samples the macro-batch of the nodes of `large_`.
    [[nodiscard]] mini_batch sample(const batch_key& key, mini_batch_arena& to) {
        if (options_.form == second_stage::hops) return sampler_.sample(key, large_, executor_, to);
        if (options_.form == second_stage::lists)
            return builder_.build(
                neighbor_sample<>::of(sampler_.sample(key, large_, executor_, scratch_)), options_.form, executor_, to);
        builder_.begin_drawn();
        if (large_.empty()) return builder_.end_drawn(key, to);
        const node_batches batches(large_, options_.batch, options_.seed, key.epoch, key.number.state);
        for (std::uint64_t k = 0; k < batches.size(); ++k) {
            batches.choose(k, seeds_);
            const batch_key of{key.epoch, {key.number.state, 0, k}};
            builder_.add_drawn(neighbor_sample<>::of(sampler_.sample(of, seeds_, executor_, scratch_)), executor_);
        }
        return builder_.end_drawn(key, to);
    }
    /// Returns true for node `v` of a macro-batch if its features are not moved.
    [[nodiscard]] bool without(const macro_batch& graph, std::size_t v) const {
        if (!options_.outside || !options_.outside(graph.ids()[v])) return false;
        return !options_.halo_features || (graph.drawn() != 0 && !builder_.in_last_hop()[v]);
    }
    void stage_sparse(std::uint64_t index, staged_macro_batch& to, macro_batch_counts& count) {
        std::uint64_t rows = to.graph_.nodes();
        if (options_.outside)
            rows = stage_some_sparse(to.graph_, to.sparse_);
        else
            resident().gather(executor_, to.graph_.ids(), to.sparse_);
        const std::uint64_t bytes =
            8 * to.sparse_.offsets.size() + 4 * to.sparse_.columns.size() + 4 * to.sparse_.values.size();
        if (options_.bytes != 0 && to.graph_.bytes() + bytes > options_.bytes)
            throw over_budget(options_.bytes, {{name(index), to.graph_.bytes() + bytes}});
        count.rows += rows;
        count.bytes += bytes;
    }
    /// Reads the sparse features of the nodes that have them; returns their number.
    [[nodiscard]] std::uint64_t stage_some_sparse(const macro_batch& graph, sparse_feature_rows& to) {
        const std::span<const node_id> ids = graph.ids();
        fresh_.clear();
        for (std::size_t v = 0; v < ids.size(); ++v)
            if (!without(graph, v)) fresh_.push_back(ids[v]);
        resident().gather(executor_, fresh_, to);
        auto offsets = std::exchange(to.offsets, {});
        to.offsets.resize(ids.size() + 1);
        to.offsets[0] = 0;
        for (std::size_t v = 0, next = 0; v < ids.size(); ++v)
            to.offsets[v + 1] = offsets[without(graph, v) ? next : ++next];
        return fresh_.size();
    }
    void stage_dense(std::uint64_t index, staged_macro_batch& to, macro_batch_counts& count) {
        const std::span<const node_id> ids = to.graph_.ids();
        const auto bytes = static_cast<std::size_t>(row_bytes());
        if (!ready_) {
            if (!rows_on_device())
                rows_ = aligned_buffer<std::byte, 64>(static_cast<std::size_t>(options_.rows) * bytes);
            forget_rows();
            ready_ = true;
        }
        to.slots_.resize(ids.size());
        if (options_.delta)
            held_.find(ids, to.slots_);
        else
            std::ranges::fill(to.slots_, no_slot);
        std::size_t fresh = 0;
        for (std::size_t v = 0; v < ids.size(); ++v) {
            const bool none = without(to.graph_, v);
            if (none) to.slots_[v] = no_slot;
            fresh += to.slots_[v] == no_slot && !none;
        }
        if (fresh > free_.size())
            throw over_budget(options_.rows * bytes,
                {{name(index) + (held_ids_.empty() ? "" : " and the one before it"),
                    (options_.rows - free_.size() + fresh) * bytes}});
        fresh_.clear();
        places_.clear();
        for (std::size_t v = 0; v < ids.size(); ++v) {
            if (to.slots_[v] != no_slot || without(to.graph_, v)) continue;
            to.slots_[v] = free_.back();
            free_.pop_back();
            fresh_.push_back(ids[v]);
            places_.push_back(to.slots_[v]);
        }
        if (rows_on_device()) in_order_of_ids();
        read(bytes);
        // Rows of the macro-batch before that this one does not have: its batches read them until it is dropped, and no
        // other macro-batch is made before that.
        if (options_.delta)
            for (const cache_slot slot : to.slots_)
                if (slot != no_slot) kept_.insert(slot);
        for (const node_id id : held_ids_)
            if (const cache_slot slot = held_.erase(id); !kept_.take(slot)) free_.push_back(slot);
        kept_.clear();
        held_ids_.clear();
        for (std::size_t v = 0; v < ids.size(); ++v) {
            if (to.slots_[v] == no_slot) continue;
            held_ids_.push_back(ids[v]);
            held_.insert(ids[v], to.slots_[v]);
        }
        if (rows_on_device()) // a row of zeros, for nodes without features
            std::ranges::replace(to.slots_, no_slot, static_cast<cache_slot>(options_.device->row_capacity()));
        count.rows += fresh_.size();
        count.bytes += fresh_.size() *
            (rows_on_device() ? gneiss::row_bytes(options_.device->row_type(), columns().dense) : bytes);
    }
    /// Reads the rows of `fresh_` into `places_`.
    void read(std::size_t bytes) {
        if (rows_on_device())
            return options_.device->put_rows(
                places_, [&](std::size_t first, matrix_view<std::byte> to) { read_for_device(first, to); });
        if (auto* rows = std::get_if<feature_rows>(&features_)) {
            rows->source.gather(fresh_,
                {.data = rows_.data(),
                    .stride = bytes,
                    .positions = places_,
                    .rows = static_cast<std::size_t>(options_.rows)});
            return;
        }
        constexpr std::size_t at_once = 4096;
        const auto columns = static_cast<std::size_t>(resident().columns());
        std::vector<float> some(std::min(at_once, fresh_.size()) * columns);
        for (std::size_t first = 0; first < fresh_.size(); first += at_once) {
            const std::size_t count = std::min(at_once, fresh_.size() - first);
            resident().gather(executor_, std::span<const node_id>(fresh_).subspan(first, count),
                matrix_view<float>(some.data(), count, columns));
            for (std::size_t i = 0; i < count; ++i)
                std::memcpy(rows_.data() + places_[first + i] * bytes, some.data() + i * columns, bytes);
        }
    }
    /// Reads the rows of `fresh_` from number `first` on, as a device keeps them.
    void read_for_device(std::size_t first, matrix_view<std::byte> to) {
        const auto ids = std::span<const node_id>(fresh_).subspan(first, to.rows());
        matrix_view<float> floats;
        if (options_.device->row_type() == feature_type::f32) // rows are aligned for them
            floats = {reinterpret_cast<float*>(to.data()), to.rows(), columns().dense, to.stride() / sizeof(float)};
        if (const auto* const rows = std::get_if<feature_rows>(&features_))
            detail::read_rows_as(options_.device->row_type(), *rows, ids,
                {.data = to.data(), .stride = to.stride(), .rows = to.rows()}, floats, stored_, executor_);
        else
            resident().gather(executor_, ids, floats);
    }
    /// Orders the rows that are read by their ids: parts of them, read one after the other, share no block of a file.
    void in_order_of_ids() {
        std::vector<std::pair<node_id, cache_slot>> both(fresh_.size());
        for (std::size_t i = 0; i < both.size(); ++i) both[i] = {fresh_[i], places_[i]};
        std::ranges::sort(both);
        for (std::size_t i = 0; i < both.size(); ++i) std::tie(fresh_[i], places_[i]) = both[i];
    }
    void check_rows_of(const macro_batch_device& there) const {
        const auto* const rows = std::get_if<feature_rows>(&features_);
        const bool as_stored = rows != nullptr && rows->type == there.row_type() && !rows->normalized;
        if (there.row_capacity() < options_.rows || there.columns() != columns().dense ||
            (there.row_type() != feature_type::f32 && !as_stored))
            throw error(errc::invalid_argument,
                "a device with room for " + std::to_string(there.row_capacity()) + " rows of " +
                    std::to_string(there.columns()) + " columns, where macro-batches have " +
                    std::to_string(options_.rows) + " of " + std::to_string(columns().dense) +
                    ", of floats or as they are stored");
    }
    void forget_rows() {
        held_.clear();
        held_ids_.clear();
        kept_ = slot_set(static_cast<std::size_t>(sparse() ? 0 : options_.rows));
        free_.resize(static_cast<std::size_t>(sparse() ? 0 : options_.rows));
        std::iota(free_.rbegin(), free_.rend(), cache_slot{0});
    }
    [[nodiscard]] static std::string name(std::uint64_t index) { return "macro-batch " + std::to_string(index); }

    /// Slots that the next macro-batch uses, too.
    class slot_set {
    public:
        slot_set() = default;
        explicit slot_set(std::size_t slots) : in_(slots, false) {}
        void insert(cache_slot slot) {
            in_[slot] = true;
            all_.push_back(slot);
        }
        [[nodiscard]] bool take(cache_slot slot) const { return in_[slot]; }
        void clear() {
            for (const cache_slot slot : all_) in_[slot] = false;
            all_.clear();
        }

    private:
        std::vector<bool> in_;
        std::vector<cache_slot> all_;
    };

    any_sampler sampler_;
    feature_input features_;
    nodes_of_large_batch nodes_;
    macro_batch_options options_;
    executor_ref executor_;
    memory_charge charge_;
    mutable std::mutex mutex_;
    macro_batch_counts counts_;

    std::uint64_t epoch_ = 0, index_ = 0; // loading thread only, with the members below
    macro_batch_builder builder_;
    mini_batch_arena scratch_;
    aligned_buffer<std::byte, 64> rows_; // [rows, row_bytes()], read by `gather` too
    std::vector<cache_slot> free_, places_;
    slot_table held_;                   // rows of the macro-batch made last
    std::vector<node_id> held_ids_;     // its nodes
    bool ready_ = false;                // the members above are set up
    reusable_buffer<std::byte> stored_; // rows for a device before they are decoded
    std::vector<node_id> large_, fresh_, seeds_;
    slot_set kept_;

    std::optional<detail::state_prefetcher<staged_macro_batch>> loader_; // last: its thread uses the rest
};

} // namespace gneiss
