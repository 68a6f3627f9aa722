// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/prefix_sums.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/launch.cuh>
#include <gneiss/cuda/model/step/encoder_batch.cuh>
#include <gneiss/cuda/sample/layer_view.cuh>
#include <gneiss/cuda/train/detail/history_rows.cuh>
#include <gneiss/cuda/train/kept_edges.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>
#include <gneiss/sample/macro_batch_border.hpp>
#include <gneiss/storage/embedding/history_snapshot.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/history_keeper.hpp>
#include <gneiss/train/history_options.hpp>
#include <gneiss/train/history_window.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss::cuda {

/// `histories` for batches that a device computes: the same rows are pushed and read, and the same edges removed.
///
///     const auto past = std::make_shared<device_histories>(budget, device_histories_setup{…});
///     any_backend backend(std::in_place_type<device_node_backend>, …, past);
///
/// A batch brings the number of its macro-batch and the partitions inside of it, as a list of bits; all else is on the
/// device, or with `device_histories_setup::pinned` rows are in host memory, which kernels read and write over the bus,
/// with the same bits. So steps can be recorded, and computed once more if they were refused: a step without edges and
/// rows pushes and counts nothing.
///
/// With a file (`device_histories_setup::on_disk`, then `open`), the device has the rows of a macro-batch and its halo,
/// with the same bits, too: before the first batch of another, `enter` copies what was pushed into the window of the
/// host, and from there the rows of the next. All batches of the one have ended then:
/// `pipeline_options::drains_states`.
/// Memory: `device_histories_setup::need` and `pinned_need`, `history_window::need`, and `kept_edges`. Kernels of a
/// layer: 7, and those of `layer_transposer`. Thread-safety: `put` by the stage that uploads, `enter`, `begin` and the
/// exchange by that of kernels.
/// Source: as of `histories`.
class device_histories final : public history_device, public row_exchange<float> {
public:
    /// Starts without rows. Throws errc::invalid_argument for another type than f32 and f16, errc::out_of_range for a
    /// node of a partition that there is not; over_budget, device_error.
    /// \param lists_of_inputs  the first layer needs lists by source: `device_network::needs_lists_of_inputs`
    device_histories(memory_budget& budget, const device_histories_setup& with, bool lists_of_inputs)
        : options_(with.options),
          layers_(with.layers),
          nodes_(with.parts.size()),
          partitions_(with.partitions),
          slots_of_(with.nodes()),
          most_inside_(with.on_disk() ? with.most_inside : 0),
          lists_of_inputs_(lists_of_inputs),
          budget_(budget),
          kept_(budget) {
        if (options_.type != feature_type::f32 && options_.type != feature_type::f16)
            throw error(errc::invalid_argument, "histories are f32 or f16");
        for (std::size_t v = 0; v < with.parts.size(); ++v)
            if (with.parts[v] >= partitions_)
                throw error(errc::out_of_range,
                    "node " + std::to_string(v) + " is in partition " + std::to_string(with.parts[v]) + " of " +
                        std::to_string(partitions_));
        static_cast<void>(budget.charge(with.need())); // names all of it if it does not fit
        static_cast<void>(budget.charge(with.pinned_need()));
        stream in;
        parts_ = {budget, "partitions of nodes", with.parts.size()};
        copy_async(parts_.span(), with.parts, in);
        tally_ = {budget, "counts of histories", 1};
        fill_bytes_async(tally_.span(), 0, in);
        if (on_disk()) {
            if (with.pinned) throw error(errc::invalid_argument, "histories in a file are not pinned");
            slots_ = {budget, "places of histories", with.parts.size()};
            fill_bytes_async(slots_.span(), 0, in);
        }
        if (keeps())
            for (const hidden_rows& of : layers_) {
                table& to = tables_.emplace_back();
                to.row_bytes = static_cast<std::size_t>(with.row_bytes(of.columns));
                const auto bytes = static_cast<std::size_t>(slots_of_) * to.row_bytes;
                for (auto* const numbers : {&to.pushed, &to.read}) {
                    *numbers = {budget, "macro-batches of histories", static_cast<std::size_t>(slots_of_)};
                    fill_bytes_async(numbers->span(), 0, in);
                }
                if (with.pinned)
                    to.far = {budget, "histories", bytes};
                else
                    to.near = {budget, "histories", bytes};
                std::ranges::fill(to.far.span(), std::byte{0});
                fill_bytes_async(to.near.span(), 0, in);
            }
        in.synchronize();
    }

    void open(const history_store& store, memory_budget& host) override {
        if (!on_disk()) return;
        window_charge_ = host.charge(history_window::need(store, layers_, options_));
        window_.emplace(store, layers_, options_);
    }
    [[nodiscard]] const history_options& options() const noexcept override { return options_; }
    [[nodiscard]] bool on_disk() const noexcept override { return most_inside_ != 0; }
    void expect(std::uint64_t epoch, std::uint32_t state, std::vector<node_id> halo,
        const macro_batch_border& inside) override {
        if (window_) window_->expect(epoch, state, std::move(halo), inside);
    }
    [[nodiscard]] std::string flush() override {
        leave();
        return window_->flush();
    }
    [[nodiscard]] io_stats io() const override { return window_ ? window_->io() : io_stats{}; }
    [[nodiscard]] history_counts counts() const override {
        std::array<detail::history_tally, 1> seen{};
        copy_to_host_async(
            std::span<detail::history_tally>(seen), std::span<const detail::history_tally>(tally_.span()), out_);
        out_.synchronize();
        const detail::history_tally& of = seen.front();
        history_counts result{.absent = of.absent,
            .pushed = of.pushed,
            .read_bytes = of.read_bytes,
            .push_bytes = of.push_bytes,
            .ages = {}};
        for (std::size_t age = 1; age < detail::history_tally::bins; ++age) {
            result.ages.count[age] = of.ages[age];
            result.pulled += of.ages[age];
        }
        return result;
    }

    /// Returns the bytes of a batch's place in a transfer slot.
    [[nodiscard]] std::uint64_t place_bytes() const noexcept {
        return transfer_slot::array_bytes(place_size(), sizeof(std::uint32_t));
    }
    /// Puts the place of a batch into its slot: the number of its macro-batch, and the partitions inside. Throws
    /// errc::invalid_argument for a batch of no macro-batch of these partitions.
    [[nodiscard]] const std::uint32_t* put(const training_batch& b, transfer_slot& to) const {
        if (b.inside.empty() || std::ranges::max(b.inside) >= partitions_)
            throw error(errc::invalid_argument, "a batch is in no macro-batch of the partitions of histories");
        const auto place = to.room<std::uint32_t>(place_size());
        std::ranges::fill(place.host, 0U);
        place.host[0] = static_cast<std::uint32_t>(b.macro_batch + 1);
        for (const partition_id p : b.inside) place.host[1 + p / 32] |= std::uint32_t{1} << (p % 32);
        return place.device;
    }

    /// With a file: enters the macro-batch of a batch, if it is another one; all batches so far have ended. Throws
    /// errc::invalid_argument if no file was opened, over_budget, and the errors of `history_window::enter`.
    void enter(const training_batch& b) {
        if (!on_disk() || entered_ == b.macro_batch) return;
        if (!window_) throw error(errc::invalid_argument, "histories in a file were not opened");
        leave();
        entered_.reset();
        window_->enter(b.key.epoch, b.key.number.state, {b.inside.begin(), b.inside.end()});
        constexpr std::size_t at_once = std::size_t{1} << 16;
        std::vector<node_id> ids;
        std::vector<std::uint32_t> places;
        device_buffer<node_id> ids_there(budget_, "nodes of histories", at_once);
        device_buffer<std::uint32_t> places_there(budget_, "places of histories", at_once);
        const auto flush = [&] {
            copy_async(ids_there.span().first(ids.size()), std::span<const node_id>(ids), out_);
            copy_async(places_there.span().first(ids.size()), std::span<const std::uint32_t>(places), out_);
            const auto count = static_cast<std::uint32_t>(ids.size());
            launch(out_, detail::set_slots<threads>, detail::strided_grid(count, threads), threads, 0, ids_there.data(),
                places_there.data(), count, slots_.data());
            out_.synchronize();
            ids.clear();
            places.clear();
        };
        const auto set = [&](node_id v, std::uint64_t place) {
            ids.push_back(v);
            places.push_back(static_cast<std::uint32_t>(place));
            if (ids.size() == at_once) flush();
        };
        window_->for_each_inside(set);
        std::uint64_t place = most_inside_;
        for (const node_id v : window_->halo()) set(v, place++);
        if (!ids.empty()) flush();
        take_all(0, window_->records());
        take_all(most_inside_, window_->halo_records());
        entered_ = b.macro_batch;
    }

    /// Begins a batch: returns its layers without the edges from rows that are absent, and with lists by source. Throws
    /// errc::invalid_argument for another number of layers; over_budget, device_error.
    /// \param names  [nodes] ids of the batch's nodes: a layer's sources are the first of them
    [[nodiscard]] const std::vector<layer_view>& begin(
        stream& in, std::span<const layer_view> views, const node_id* names, const std::uint32_t* place) {
        if (views.size() != layers_.size() + 1)
            throw error(errc::invalid_argument, "histories are of an encoder with other layers");
        batch_ = {.names = names, .parts = parts_.data(), .place = place, .slots = slots_.data()};
        views_.assign(views.begin(), views.end());
        while (marks_.size() < views.size()) marks_.emplace_back(budget_, "marks of a halo");
        marked_.assign(views.size(), nullptr);
        for (std::size_t hop = 0; hop < views_.size(); ++hop) {
            layer_view& view = views_[hop];
            if (hop != 0 || !options_.halo_features) marked_[hop] = mark(in, hop);
            const bool by_source = hop != 0 || lists_of_inputs_;
            if (marked_[hop] == nullptr && !by_source) continue;
            view = kept_(in, hop, view, marked_[hop], by_source);
            if (hop != 0 && keeps()) count_reads(in, hop);
        }
        return views_;
    }
    /// Returns how often scratch was replaced.
    [[nodiscard]] std::uint64_t growths() const noexcept {
        std::uint64_t sum = kept_.growths();
        for (const auto& of : marks_) sum += of.growths();
        return sum;
    }

    [[nodiscard]] bool exchanges(std::size_t layer) const override {
        return std::ranges::find(layers_, layer, &hidden_rows::layer) != layers_.end();
    }
    void rows(cudaStream_t in, std::size_t layer, const std::uint32_t* count, std::uint32_t capacity,
        rows_view<float> rows) override {
        const std::size_t at = number_of(layer);
        const detail::history_rows of{count, marked_[at + 1], rows};
        const auto exchange = [&]<class Stored>(Stored) {
            detail::history_table<Stored> to{};
            if (keeps()) {
                table& kept = tables_[at];
                to = {.rows = reinterpret_cast<Stored*>(kept.rows()),
                    .stride = kept.row_bytes / sizeof(Stored),
                    .pushed = kept.pushed.data(),
                    .bytes = row_bytes(options_.type, layers_[at].columns)};
            }
            launch(in, detail::exchange_rows<Stored, threads>,
                detail::strided_grid(capacity, threads / detail::warp_lanes), threads, 0, batch_, of, to,
                tally_.data());
        };
        if (options_.type == feature_type::f16)
            exchange(float16{});
        else
            exchange(float{});
    }
    void gradients(cudaStream_t in, std::size_t layer, const std::uint32_t* count, std::uint32_t capacity,
        rows_view<float> rows) override {
        launch(in, detail::clear_halo<threads>, detail::strided_grid(capacity, threads / detail::warp_lanes), threads,
            0, detail::history_rows{count, marked_[number_of(layer) + 1], rows});
    }

    void save(const std::filesystem::path& to) const override {
        std::vector<std::byte> records;
        snapshot().save(to, [&](std::uint64_t first, std::size_t count) {
            records.resize(count * record());
            give(first, records, 0);
            return std::span<const std::byte>(records);
        });
    }
    void load(const std::filesystem::path& from) override {
        snapshot().load(
            from, [&](std::uint64_t first, std::span<const std::byte> records) { take(first, records, 0); });
    }

private:
    static constexpr unsigned threads = 256;

    /// The rows of a hidden layer.
    struct table {
        device_buffer<std::byte> near;       ///< [slots, row_bytes]; or
        pinned_buffer<std::byte> far;        ///< the same
        device_buffer<std::uint32_t> pushed; ///< [slots] macro-batch of the last push, from 1; 0: none, or beyond f16
        device_buffer<std::uint32_t> read;   ///< [slots] macro-batch that read the row last; 0: none
        std::size_t row_bytes = 0;

        [[nodiscard]] std::byte* rows() noexcept { return span().data(); }
        [[nodiscard]] std::span<std::byte> span() noexcept { return far.empty() ? near.span() : far.span(); }
        [[nodiscard]] std::span<const std::byte> span() const noexcept {
            return far.empty() ? near.span() : far.span();
        }
    };

    [[nodiscard]] bool keeps() const noexcept { return keeps_histories(layers_, options_); }
    [[nodiscard]] std::size_t record() const { return history_record_bytes(layers_, options_.type); }
    [[nodiscard]] history_snapshot snapshot() const {
        return {history_shape(layers_, nodes_, options_), nodes_, keeps() ? record() : 0};
    }
    /// Copies what was pushed to the window.
    void leave() {
        if (!entered_) return;
        const std::span<std::byte> records = window_->records();
        const std::size_t bytes = record() + history_window::lead;
        history_snapshot::for_each_chunk(records.size() / bytes, bytes, [&](std::uint64_t first, std::size_t count) {
            give(first, records.subspan(first * bytes, count * bytes), history_window::lead);
        });
        window_->all_pushed();
    }
    /// Copies records of the window to slots from `first_slot` on.
    void take_all(std::uint64_t first_slot, std::span<const std::byte> records) {
        const std::size_t bytes = record() + history_window::lead;
        history_snapshot::for_each_chunk(records.size() / bytes, bytes, [&](std::uint64_t first, std::size_t count) {
            take(first_slot + first, records.subspan(first * bytes, count * bytes), history_window::lead);
        });
    }
    /// Writes records of the slots from `first` on, each after `lead` bytes that it leaves.
    void give(std::uint64_t first, std::span<std::byte> records, std::size_t lead) const {
        const std::size_t size = record() + lead, count = records.size() / size;
        std::vector<std::byte> rows;
        std::vector<std::uint32_t> pushed(count);
        for (std::size_t i = 0; i < tables_.size(); ++i) {
            const table& from = tables_[i];
            rows.resize(count * from.row_bytes);
            copy_async(std::span(rows), from.span().subspan(first * from.row_bytes, rows.size()), out_);
            copy_async(std::span(pushed), from.pushed.span().subspan(first, count), out_);
            out_.synchronize();
            const auto bytes = static_cast<std::size_t>(row_bytes(options_.type, layers_[i].columns));
            for (std::size_t v = 0; v < count; ++v) {
                std::byte* const at = records.data() + v * size + lead;
                std::memcpy(at, &pushed[v], sizeof pushed[v]);
                std::memcpy(at + sizeof pushed[v], rows.data() + v * from.row_bytes, bytes);
            }
            lead += sizeof(std::uint32_t) + bytes;
        }
    }
    /// Reads such records into the slots from `first` on.
    void take(std::uint64_t first, std::span<const std::byte> records, std::size_t lead) {
        const std::size_t size = record() + lead, count = records.size() / size;
        std::vector<std::byte> rows;
        std::vector<std::uint32_t> pushed(count);
        for (std::size_t i = 0; i < tables_.size(); ++i) {
            table& to = tables_[i];
            rows.assign(count * to.row_bytes, std::byte{0});
            const auto bytes = static_cast<std::size_t>(row_bytes(options_.type, layers_[i].columns));
            for (std::size_t v = 0; v < count; ++v) {
                const std::byte* const at = records.data() + v * size + lead;
                std::memcpy(&pushed[v], at, sizeof pushed[v]);
                std::memcpy(rows.data() + v * to.row_bytes, at + sizeof pushed[v], bytes);
            }
            copy_async(to.span().subspan(first * to.row_bytes, rows.size()), rows, out_);
            copy_async(to.pushed.span().subspan(first, count), pushed, out_);
            out_.synchronize();
            lead += sizeof(std::uint32_t) + bytes;
        }
    }
    [[nodiscard]] std::size_t place_size() const noexcept { return 1 + ceil_div(partitions_, 32U); }
    [[nodiscard]] std::size_t number_of(std::size_t layer) const {
        return static_cast<std::size_t>(std::ranges::find(layers_, layer, &hidden_rows::layer) - layers_.begin());
    }
    /// Marks the sources of a layer.
    [[nodiscard]] const std::uint8_t* mark(stream& in, std::size_t hop) {
        const layer_view& view = views_[hop];
        std::uint8_t* const marks = marks_[hop].at_least(view.source_capacity, in);
        const std::uint32_t* const pushed = hop == 0 || !keeps() ? nullptr : tables_[hop - 1].pushed.data();
        const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(options_.most_age, 0xffffffffU));
        launch(in, detail::mark_halo<threads>, detail::strided_grid(view.source_capacity, threads), threads, 0, batch_,
            view.counts, pushed, most, hop == 0 ? nullptr : tally_.data(), marks);
        return marks;
    }
    /// Counts the rows that edges of a layer read for the first time in their macro-batch.
    void count_reads(stream& in, std::size_t hop) {
        const layer_view& view = views_[hop];
        launch(in, detail::count_reads<threads>, detail::strided_grid(view.edge_capacity, threads), threads, 0, batch_,
            view.counts, view.neighbors, marked_[hop], tables_[hop - 1].read.data(),
            row_bytes(options_.type, layers_[hop - 1].columns), tally_.data());
    }

    history_options options_;
    std::vector<hidden_rows> layers_;
    std::uint64_t nodes_;
    std::uint32_t partitions_;
    std::uint64_t slots_of_, most_inside_; ///< slots of tables; those of nodes inside with a file, which are first
    bool lists_of_inputs_;
    memory_budget& budget_;
    mutable stream out_; ///< of counts and files
    device_buffer<std::uint16_t> parts_;
    device_buffer<detail::history_tally> tally_;
    std::vector<table> tables_; ///< by hidden layer

    device_buffer<std::uint32_t> slots_;   ///< [nodes] with a file: slot of each node of the macro-batch
    std::optional<history_window> window_; ///< the file, once it is opened
    memory_charge window_charge_{};
    std::optional<std::uint64_t> entered_; ///< macro-batch whose rows are in the tables

    kept_edges kept_;                                        ///< of the batch that is computed, with the members below
    std::deque<reusable_device_buffer<std::uint8_t>> marks_; ///< by hop: [sources]
    std::vector<const std::uint8_t*> marked_;                ///< the same; null: no edge is removed
    std::vector<layer_view> views_;
    detail::history_batch batch_{};
};

} // namespace gneiss::cuda
