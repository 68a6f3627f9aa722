// SPDX-License-Identifier: Apache-2.0
// Historical activations: the rows that layers above the first read of nodes outside of a macro-batch.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
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
#include <gneiss/storage/embedding/history_file.hpp>
#include <gneiss/storage/embedding/history_snapshot.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/history_options.hpp>
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
/// With a file, memory has the partitions of the macro-batch that trains, and its halo: between two macro-batches the
/// one is written, and the other is read. The halo, which `expect` named, is read ahead, but for its rows in partitions
/// that an earlier macro-batch is still to write. Both stores give the same bits.
///
/// Memory: `need`, charged to the budget. Cost of a batch: O(its edges) and one copy of its rows for each layer.
/// Results do not depend on the executor. Thread-safety: `begin` and its callbacks by the compute stage; `expect` by
/// any thread; the rest between epochs or at checkpoints, when no batch is computed. Errors of `begin` and `expect`
/// with a file: those of `history_file`; of `begin` over_budget for a macro-batch of more nodes than the store allows.
/// Source: Joestar, thesis, §5.2.2; Fey et al., GNNAutoScale, ICML 2021.
class histories {
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
    /// Starts with a new file, or the versions of a checkpoint. Errors in addition: those of `history_file`.
    histories(const std::vector<hidden_rows>& layers, const history_store& store, const history_options& options,
        executor_ref executor, memory_budget& budget)
        : histories(options, executor, budget.charge(need(layers, store, options)), history_file::checksum_bytes,
              store.parts.size(), layers) {
        if (!keeps()) return;
        store_ = store;
        places_.resize(store.parts.size());
        std::vector<std::uint64_t> sizes(store.partitions, 0);
        for (std::size_t v = 0; v < places_.size(); ++v)
            places_[v] = static_cast<std::uint32_t>(sizes.at(store.parts[v])++);
        if (store.versions)
            file_.emplace(store.path, sizes, record_, *store.versions);
        else
            file_.emplace(store.path, sizes, record_);
        sizes_ = std::move(sizes);
        starts_.assign(store.partitions, 0);
        rows_ = aligned_buffer<std::byte, 64>(static_cast<std::size_t>(store.most_inside) * record_);
        for (auto* halo : {&halo_rows_, &ahead_rows_})
            *halo = aligned_buffer<std::byte, 64>(static_cast<std::size_t>(store.most_halo) * record_);
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
        return {"histories",
            (store.most_inside + 2 * store.most_halo) *
                    history_record_bytes(layers, options.type, history_file::checksum_bytes) +
                sent_bytes(store.most_halo, layers) + store.parts.size() * sizeof(std::uint32_t) +
                4 * store.most_halo * sizeof(node_id)};
    }
    /// Returns the disk space of that file.
    [[nodiscard]] static std::uint64_t file_bytes(
        std::span<const hidden_rows> layers, std::uint64_t nodes, const history_options& options) {
        return options.most_age == 0
            ? 0
            : history_file::bytes(nodes, history_record_bytes(layers, options.type, history_file::checksum_bytes));
    }

    [[nodiscard]] const history_options& options() const noexcept { return options_; }
    /// Returns the counts of all batches so far. Any thread.
    [[nodiscard]] history_counts counts() const {
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
            if (file_) enter(inside, {b.key.epoch, b.key.number.state});
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

    /// With a file: names the nodes of the halo of a macro-batch, by epoch and state, in the order of training, before
    /// its batches are computed; reads ahead what it can.
    /// \param inside  has entered the macro-batch
    void expect(std::uint64_t epoch, std::uint32_t state, std::vector<node_id> halo, const macro_batch_border& inside) {
        if (!file_) return;
        std::ranges::sort(halo);
        const std::scoped_lock lock(file_mutex_);
        coming next{.halo = std::move(halo), .inside = {}, .waits = std::vector<bool>(sizes_.size(), false)};
        for (partition_id p = 0; p < sizes_.size(); ++p)
            if (inside.inside(p)) next.inside.push_back(p);
        for (const partition_id p : resident_) next.waits[p] = true;
        bool free = next.halo.size() <= store_.most_halo;
        expected_.erase({epoch, state});
        for (const auto& [key, other] : expected_) {
            for (const partition_id p : other.inside) next.waits[p] = true;
            free = free && !other.ahead;
        }
        if (free) {
            read_halo(next.halo, ahead_rows_, [&](partition_id p) { return !next.waits[p]; });
            next.ahead = true;
        }
        expected_.emplace(std::pair(epoch, state), std::move(next));
    }
    /// True if the rows are in a file.
    [[nodiscard]] bool on_disk() const noexcept { return file_.has_value(); }
    /// With a file: makes all rows durable, and returns the versions that a checkpoint keeps; it is durable before the
    /// next batch is computed.
    [[nodiscard]] std::string flush() {
        const std::scoped_lock lock(file_mutex_);
        write_back();
        note_io();
        return file_->flush();
    }
    /// Returns the I/O of the file so far. Any thread.
    [[nodiscard]] io_stats io() const {
        const std::scoped_lock lock(mutex_);
        return io_;
    }

    /// Writes rows in memory to a file, durably and in one step. Errors: io_error.
    void save(const std::filesystem::path& to) const {
        snapshot().save(to, [&](std::uint64_t first, std::size_t count) {
            return std::span<const std::byte>(rows_.data() + first * record_, count * record_);
        });
    }
    /// Reads rows that `save` wrote. Throws errc::corrupt, naming the file, for one that is cut or damaged, or of other
    /// layers; io_error. After an error before the last read the rows are as before.
    void load(const std::filesystem::path& from) {
        snapshot().load(from, [&](std::uint64_t first, std::span<const std::byte> records) {
            std::ranges::copy(records, rows_.data() + first * record_);
        });
    }

private:
    using number = std::uint32_t; // macro-batch of the last push, from 1; 0: none

    /// A macro-batch that will be entered.
    struct coming {
        std::vector<node_id> halo; // ascending
        std::vector<partition_id> inside;
        std::vector<bool> waits; // [partitions] whose rows may still be written
        bool ahead = false;      // the rows of the others are in `ahead_rows_`
    };

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

    /// Writes the partitions that were pushed to.
    void write_back() {
        for (const partition_id p : resident_)
            if (pushed_[p]) file_->write(p, std::span(rows_.data() + starts_[p] * record_, sizes_[p] * record_));
        pushed_.assign(sizes_.size(), false);
    }
    /// Exchanges the partitions and the halo in memory.
    void enter(const macro_batch_border& inside, const std::pair<std::uint64_t, std::uint32_t>& key) {
        const std::scoped_lock lock(file_mutex_);
        write_back();
        resident_.clear();
        std::uint64_t count = 0;
        for (partition_id p = 0; p < sizes_.size(); ++p) {
            if (!inside.inside(p)) continue;
            resident_.push_back(p);
            starts_[p] = count;
            count += sizes_[p];
        }
        const auto found = expected_.find(key);
        if (found == expected_.end())
            throw error(errc::invalid_argument, "the halo of a macro-batch is not known to its histories");
        const coming next = std::move(found->second);
        expected_.erase(expected_.begin(), std::next(found));
        halo_ids_ = next.halo;
        if (count > store_.most_inside || halo_ids_.size() > store_.most_halo)
            throw over_budget((store_.most_inside + store_.most_halo) * record_,
                {{"histories of macro-batch " + std::to_string(key.second), (count + halo_ids_.size()) * record_}});
        for (const partition_id p : resident_)
            file_->read(p, std::span(rows_.data() + starts_[p] * record_, sizes_[p] * record_));
        if (next.ahead) std::swap(halo_rows_, ahead_rows_);
        read_halo(halo_ids_, halo_rows_, [&](partition_id p) { return !next.ahead || next.waits[p]; });
    }
    /// Reads the records of a halo in the partitions for which `reads` is true.
    template <class Reads>
    void read_halo(std::span<const node_id> halo, aligned_buffer<std::byte, 64>& to, const Reads& reads) {
        std::vector<std::vector<std::uint32_t>> by_partition(sizes_.size()); // numbers in the halo
        for (std::size_t i = 0; i < halo.size(); ++i)
            if (const partition_id p = store_.parts[halo[i]]; reads(p))
                by_partition[p].push_back(static_cast<std::uint32_t>(i));
        std::vector<std::uint32_t> some;
        std::vector<std::byte> records;
        constexpr std::size_t at_once = 256;
        for (partition_id p = 0; p < sizes_.size(); ++p) {
            const std::vector<std::uint32_t>& all = by_partition[p]; // ids ascend, and so do places
            for (std::size_t first = 0; first < all.size(); first += at_once) {
                const auto part = std::span(all).subspan(first, std::min(at_once, all.size() - first));
                some.clear();
                for (const std::uint32_t i : part) some.push_back(places_[halo[i]]);
                records.resize(part.size() * record_);
                file_->read(p, some, records);
                for (std::size_t k = 0; k < part.size(); ++k)
                    std::memcpy(to.data() + part[k] * record_, records.data() + k * record_, record_);
            }
        }
        note_io();
    }
    void note_io() {
        const std::scoped_lock lock(mutex_);
        io_ = file_->statistics();
    }
    /// Returns the record of a node of the batch.
    [[nodiscard]] std::byte* record(node_id v, bool outside) {
        if (!file_) return rows_.data() + v * record_;
        if (!outside) return rows_.data() + (starts_[store_.parts[v]] + places_[v]) * record_;
        return halo_rows_.data() + number_in_halo(v) * record_;
    }
    [[nodiscard]] std::size_t number_in_halo(node_id v) const {
        const auto found = std::ranges::lower_bound(halo_ids_, v);
        if (found == halo_ids_.end() || *found != v)
            throw error(errc::invalid_argument, "node " + std::to_string(v) + " is not in the halo of its macro-batch");
        return static_cast<std::size_t>(found - halo_ids_.begin());
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
            const std::size_t number = file_ ? number_in_halo(nodes_of_batch_[v]) : std::size_t{nodes_of_batch_[v]};
            const std::size_t at = number * layers_.size() + table;
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
        if (file_)
            for (std::size_t v = 0; v < rows.rows(); ++v)
                if (outside_[v] == 0) pushed_[store_.parts[nodes_of_batch_[v]]] = true;
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
    aligned_buffer<std::byte, 64> rows_; // records of all nodes, or of the partitions in memory

    history_store store_; // with a file, with the members below
    std::optional<history_file> file_;
    std::vector<std::uint32_t> places_;         // [nodes] in their partition
    std::vector<std::uint64_t> sizes_, starts_; // [partitions] nodes; first record in memory
    std::vector<partition_id> resident_;
    std::vector<bool> pushed_;      // [partitions] since they were read
    std::vector<node_id> halo_ids_; // ascending
    aligned_buffer<std::byte, 64> halo_rows_, ahead_rows_;
    std::mutex file_mutex_; // guards the file, its partitions in memory, and rows ahead
    std::map<std::pair<std::uint64_t, std::uint32_t>, coming> expected_;

    std::uint64_t entered_ = ~std::uint64_t{0}; // macro-batch of the batch before
    std::vector<bool> sent_;                    // [halo, layers] rows that it read; [nodes, layers] without a file
    mutable std::mutex mutex_;                  // guards the members below
    history_counts counts_;
    io_stats io_;

    std::span<const node_id> nodes_of_batch_; // of the batch that is computed, with the members below
    std::uint32_t now_ = 0;
    std::vector<std::uint8_t> outside_, absent_;
    std::vector<std::uint32_t> halo_; // its numbers in the batch, ascending
};

} // namespace gneiss
