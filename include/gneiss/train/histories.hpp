// SPDX-License-Identifier: Apache-2.0
// Historical activations: the rows that layers above the first read of nodes outside of a macro-batch.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/model/encoder.hpp>
#include <gneiss/sample/layer_view.hpp>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/storage/embedding/history_snapshot.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/history_keeper.hpp>
#include <gneiss/train/history_options.hpp>
#include <gneiss/train/history_window.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss {

/// The last activations of all nodes: a row for each layer above the first that reads neighbors, in memory or in a
/// file.
///
///     histories past(hidden_rows_of(encode), graph.nodes(), {.most_age = 20}, executor, budget);
///     cpu_encoder_backend backend(encode, weights, head, seed, executor,
///         {.hook = [&](training_batch& b) { return past.begin(b, border, macro_batch); }});
///
/// A batch pushes the rows that it computes of nodes inside of its macro-batch, and reads those of its halo, as earlier
/// macro-batches pushed them last: a macro-batch never pushes its own halo. No gradient passes them. A row that was
/// never pushed, or is older than `most_age`, is absent: its edges are removed, so it is neither 0 nor in a mean. In
/// the first layer the edges from the halo are removed, or with `halo_features` read its features.
///
/// With a file, memory has a `history_window`, the rows of the macro-batch that trains. Both stores give the same bits.
///
/// Memory: `need`, charged to the budget. Cost of a batch: O(its edges) and one copy of its rows for each layer.
/// Results do not depend on the executor. Thread-safety: `begin` and its callbacks by the compute stage; `expect` by
/// any thread; the rest between epochs or at checkpoints, when no batch is computed. Errors of `begin` and `expect`
/// with a file: those of `history_window`.
/// Source: Joestar, thesis, §5.2.2; Fey et al., GNNAutoScale, ICML 2021.
class histories final : public history_keeper {
public:
    /// Starts without rows, in memory. Throws errc::invalid_argument for another type than f32 and f16; over_budget.
    histories(const std::vector<hidden_rows>& layers, std::uint64_t nodes, const history_options& options,
        executor_ref executor, memory_budget& budget)
        : histories(options, executor, budget.charge(need(layers, nodes, options)), 0, nodes, layers) {
        if (!keeps()) return;
        rows_ = aligned_buffer<std::byte, 64>(static_cast<std::size_t>(nodes) * record_);
        sent_.resize(static_cast<std::size_t>(nodes) * layers_.size());
        std::ranges::fill(std::span(rows_.data(), rows_.size()), std::byte{0});
    }
    /// Starts with a new file, or the versions of a checkpoint. Errors in addition: those of `history_window`.
    histories(const std::vector<hidden_rows>& layers, const history_store& store, const history_options& options,
        executor_ref executor, memory_budget& budget)
        : histories(options, executor, budget.charge(need(layers, store, options)), history_window::lead,
              store.parts.size(), layers) {
        if (!keeps()) return;
        window_.emplace(store, layers_, options_);
        sent_.resize(static_cast<std::size_t>(store.most_halo) * layers_.size());
    }

    /// Returns the memory of rows in memory.
    [[nodiscard]] static memory_need need(
        std::span<const hidden_rows> layers, std::uint64_t nodes, const history_options& options) {
        return {"histories",
            options.most_age == 0 ? 0 : nodes * history_record_bytes(layers, options.type) + sent_bytes(nodes, layers)};
    }
    /// Returns the memory of rows in a file.
    [[nodiscard]] static memory_need need(
        std::span<const hidden_rows> layers, const history_store& store, const history_options& options) {
        if (options.most_age == 0) return {"histories"};
        memory_need result = history_window::need(store, layers, options);
        result.bytes += sent_bytes(store.most_halo, layers);
        return result;
    }

    [[nodiscard]] const history_options& options() const noexcept override { return options_; }
    /// Returns the counts of all batches so far. Any thread.
    [[nodiscard]] history_counts counts() const override {
        const std::scoped_lock lock(mutex_);
        return counts_;
    }

    /// Removes the edges of a batch from rows that are absent, and returns the callbacks of its forward and backward
    /// pass, valid until the next call.
    /// \param inside       of the batch's macro-batch; outlives the passes
    /// \param macro_batch  its number, counted over all epochs
    [[nodiscard]] encoder_hook<float> begin(
        training_batch& b, const macro_batch_border& inside, std::uint64_t macro_batch) {
        if (entered_ != macro_batch) {
            if (window_) window_->enter(b.key.epoch, b.key.number.state, inside.resident());
            sent_.assign(sent_.size(), false);
            entered_ = macro_batch;
        }
        nodes_of_batch_ = b.nodes;
        now_ = static_cast<std::uint32_t>(macro_batch);
        outside_.assign(b.nodes.size(), 0);
        halo_.clear();
        for (std::size_t v = 0; v < b.nodes.size(); ++v)
            if (!inside[b.nodes[v]]) {
                outside_[v] = 1;
                halo_.push_back(static_cast<std::uint32_t>(v));
            }
        history_counts seen;
        for (std::size_t hop = 0; hop < b.layers.size() && !halo_.empty(); ++hop) find_absent(b.layers, hop, seen);
        {
            const std::scoped_lock lock(mutex_);
            counts_ += seen;
        }
        return {.rows = [this](std::size_t layer, matrix_view<float> rows) { exchange(layer, rows); },
            .gradients =
                [this](std::size_t layer, matrix_view<float> gradients) {
                    if (std::ranges::find(layers_, layer, &hidden_rows::layer) == layers_.end()) return;
                    for (const std::uint32_t v : halo_of(gradients.rows())) std::ranges::fill(gradients[v], 0.0F);
                }};
    }

    [[nodiscard]] bool on_disk() const noexcept override { return window_.has_value(); }
    void expect(std::uint64_t epoch, std::uint32_t state, std::vector<node_id> halo,
        const macro_batch_border& inside) override {
        if (window_) window_->expect(epoch, state, std::move(halo), inside);
    }
    [[nodiscard]] std::string flush() override { return window_->flush(); }
    [[nodiscard]] io_stats io() const override { return window_ ? window_->io() : io_stats{}; }
    void save(const std::filesystem::path& to) const override {
        snapshot().save(to, [&](std::uint64_t first, std::size_t count) {
            return std::span<const std::byte>(rows_.data() + first * record_, count * record_);
        });
    }
    void load(const std::filesystem::path& from) override {
        snapshot().load(from, [&](std::uint64_t first, std::span<const std::byte> records) {
            std::ranges::copy(records, rows_.data() + first * record_);
        });
    }

private:
    using number = std::uint32_t; // macro-batch of the last push, from 1; 0: none

    histories(const history_options& options, executor_ref executor, memory_charge charge, std::size_t lead,
        std::uint64_t nodes, std::span<const hidden_rows> layers)
        : layers_(layers.begin(), layers.end()),
          nodes_(nodes),
          options_(options),
          executor_(executor),
          charge_(std::move(charge)),
          record_(history_record_bytes(layers_, options.type, lead)) {
        if (options.type != feature_type::f32 && options.type != feature_type::f16)
            throw error(errc::invalid_argument, "histories are f32 or f16");
        for (const hidden_rows& of : layers_) {
            offsets_.push_back(lead);
            lead += sizeof(number) + static_cast<std::size_t>(row_bytes(options.type, of.columns));
        }
    }
    /// Returns the memory of a bit for each row of `nodes` nodes.
    [[nodiscard]] static std::uint64_t sent_bytes(std::uint64_t nodes, std::span<const hidden_rows> layers) noexcept {
        return ceil_div(nodes * layers.size(), std::uint64_t{64}) * 8;
    }
    [[nodiscard]] bool keeps() const noexcept { return keeps_histories(layers_, options_); }
    /// Returns the form of the file of rows in memory.
    [[nodiscard]] history_snapshot snapshot() const {
        return {history_shape(layers_, nodes_, options_), nodes_, keeps() ? record_ : 0};
    }

    /// Returns the record of a node of the batch.
    [[nodiscard]] std::byte* record(node_id v, bool outside) {
        if (!window_) return rows_.data() + v * record_;
        return outside ? window_->halo_record(v) : window_->record(v);
    }

    /// Returns the halo's rows of the first `count`.
    [[nodiscard]] std::span<const std::uint32_t> halo_of(std::size_t count) const {
        const auto end = std::ranges::lower_bound(halo_, count, {}, [](std::uint32_t v) { return std::size_t{v}; });
        return {halo_.begin(), end};
    }
    /// Returns the age of a row in macro-batches; 0: there is none, or it is too old.
    [[nodiscard]] std::uint64_t age(const std::byte* of, std::size_t table) const noexcept {
        number pushed = 0;
        std::memcpy(&pushed, of + offsets_[table], sizeof pushed);
        const std::uint64_t result = pushed == 0 ? 0 : now_ + std::uint64_t{1} - pushed;
        return result <= options_.most_age ? result : 0;
    }

    void find_absent(layer_stack& layers, std::size_t hop, history_counts& seen) {
        const std::span<const std::uint32_t> halo = halo_of(layers[hop].sources);
        if (hop == 0 && options_.halo_features) return;
        absent_.assign(layers[hop].sources, 0);
        std::uint64_t absent = 0;
        for (const std::uint32_t v : halo) {
            const std::uint64_t old = hop != 0 && keeps() ? age(record(nodes_of_batch_[v], true), hop - 1) : 0;
            absent_[v] = old == 0 ? 1 : 0;
            absent += old == 0;
            if (old != 0) seen.ages.add(old);
        }
        if (hop != 0) {
            seen.absent += absent;
            seen.pulled += halo.size() - absent;
            if (keeps()) count_sent(layers[hop].neighbors, hop - 1, seen);
        }
        if (absent != 0) layers.drop_edges(hop, absent_);
    }
    /// Counts the rows of the halo that edges of a layer read, and none of this macro-batch did before.
    void count_sent(std::span<const std::uint32_t> neighbors, std::size_t table, history_counts& seen) {
        for (const std::uint32_t v : neighbors) {
            if (outside_[v] == 0 || absent_[v] != 0) continue;
            const node_id id = nodes_of_batch_[v];
            const std::size_t row = window_ ? window_->number_in_halo(id) : std::size_t{id};
            const std::size_t at = row * layers_.size() + table;
            if (sent_[at]) continue;
            sent_[at] = true;
            seen.read_bytes += row_bytes(options_.type, layers_[table].columns);
        }
    }
    /// Pushes the rows of nodes inside, and reads those of the halo; 0 for one that is absent, which no edge reads.
    void exchange(std::size_t layer, matrix_view<float> rows) {
        const auto found = std::ranges::find(layers_, layer, &hidden_rows::layer);
        if (found == layers_.end()) return;
        if (!keeps()) {
            for (const std::uint32_t v : halo_of(rows.rows())) std::ranges::fill(rows[v], 0.0F);
            return;
        }
        const auto table = static_cast<std::size_t>(found - layers_.begin());
        std::atomic<std::uint64_t> fresh{0}; // rows that this macro-batch pushes for the first time
        if (window_)
            for (std::size_t v = 0; v < rows.rows(); ++v)
                if (outside_[v] == 0) window_->pushed(nodes_of_batch_[v]);
        parallel_for(executor_, rows.rows(), 256, [&](std::size_t v, std::size_t end) {
            std::uint64_t some = 0;
            for (; v < end; ++v) {
                std::byte* const of = record(nodes_of_batch_[v], outside_[v] != 0);
                std::byte* const row = of + offsets_[table] + sizeof(number);
                if (outside_[v] == 0) {
                    number before = 0;
                    std::memcpy(&before, of + offsets_[table], sizeof before);
                    some += before != now_ + 1;
                    const bool fits = encode_row(rows[v], options_.type, row) == rows.columns();
                    const number pushed = fits ? now_ + 1 : 0; // beyond f16: absent
                    std::memcpy(of + offsets_[table], &pushed, sizeof pushed);
                } else if (age(of, table) != 0) {
                    decode_row(options_.type, row, rows[v]);
                } else {
                    std::ranges::fill(rows[v], 0.0F);
                }
            }
            fresh.fetch_add(some, std::memory_order_relaxed);
        });
        const std::scoped_lock lock(mutex_);
        counts_.pushed += rows.rows() - halo_of(rows.rows()).size();
        counts_.push_bytes += fresh.load(std::memory_order_relaxed) * row_bytes(options_.type, layers_[table].columns);
    }

    std::vector<hidden_rows> layers_;
    std::uint64_t nodes_;
    history_options options_;
    executor_ref executor_;
    memory_charge charge_;
    std::size_t record_;                 // bytes
    std::vector<std::size_t> offsets_;   // [layers] of the last push in a record, which the row follows
    aligned_buffer<std::byte, 64> rows_; // records of all nodes; or
    std::optional<history_window> window_;

    std::uint64_t entered_ = ~std::uint64_t{0}; // macro-batch of the batch before
    std::vector<bool> sent_;                    // [halo, layers] rows that it read; [nodes, layers] without a window
    mutable std::mutex mutex_;                  // guards the members below
    history_counts counts_;

    std::span<const node_id> nodes_of_batch_; // of the batch that is computed, with the members below
    std::uint32_t now_ = 0;
    std::vector<std::uint8_t> outside_, absent_;
    std::vector<std::uint32_t> halo_; // its numbers in the batch, ascending
};

} // namespace gneiss
