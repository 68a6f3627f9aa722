// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/float16.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/cuda/model/layer/graph_layer.cuh>
#include <gneiss/cuda/train/device_macro_batch.cuh>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/train/device_setup.hpp>
#include <gneiss/train/training_batch.hpp>

namespace gneiss::cuda {

/// Features of all nodes that kernels read by id: see `device_features`.
///
/// Rows keep their type: f16 and bf16 take half the bytes of f32, in memory and over the bus, and the kernels that read
/// them widen them, so that results have the bits of f32. Layers read rows by id from a table that is on the device as
/// a whole, unless `device_features::fused` is false. Others are gathered into floats: rows of a tier and over the bus,
/// since a layer reads a row once for each of its edges, and rows beside learned columns. Rows of a cache, whose
/// contents batches change, are gathered, too, by slot. Memory: device and pinned, as its rows say; of a tier 4 bytes
/// of the device's per node. Thread-safety: one thread gathers, others may count.
class device_feature_table {
public:
    /// A batch's part of a cache, on the device: `device_cache_moves`.
    struct moves {
        const std::uint32_t* places = nullptr;      ///< [nodes]
        const cache_entry* entries = nullptr;       ///< rows that enter
        const std::uint32_t* entry_count = nullptr; ///< their number
        std::uint32_t most_entries = 0;             ///< maximum of it
        const std::byte* brought = nullptr;         ///< rows that the batch brings

        friend bool operator==(const moves&, const moves&) = default;
    };

    /// Reads all rows. Throws errc::invalid_argument for a type without kernels, over_budget, device_error; errors of
    /// `read`.
    device_feature_table(memory_budget& budget, const device_features& from)
        : columns_(from.columns),
          type_(from.type),
          near_bytes_(device_features::row_bytes(columns_, type_)),
          far_bytes_(device_features::pinned_row_bytes(columns_, type_)),
          cached_(from.cache_slots != 0),
          all_near_(!from.resident && !cached_),
          fused_(from.fused) {
        if (type_ == feature_type::int8)
            throw error(errc::invalid_argument, "kernels read features of f32, f16 and bf16, not int8");
        if (cached_) {
            near_ = device_buffer<std::byte>(budget, "cached features", from.cache_slots * near_bytes_);
            return;
        }
        const auto nodes = static_cast<std::size_t>(from.nodes);
        near_ = device_buffer<std::byte>(budget, "features", (all_near_ ? nodes : from.resident->size()) * near_bytes_);
        if (!all_near_) far_ = pinned_buffer<std::byte>(budget, "features", nodes * far_bytes_);
        const stream in;
        const std::size_t row = columns_ * value_bytes(type_);
        const std::size_t some = std::max<std::size_t>((std::size_t{4} << 20) / near_bytes_, 1);
        std::vector<std::byte> rows;
        for (std::size_t first = 0; first < nodes; first += some) {
            const std::size_t count = std::min(some, nodes - first);
            if (!all_near_) {
                from.read(first, {far_.data() + first * far_bytes_, count, row, far_bytes_});
                continue;
            }
            rows.resize(count * near_bytes_);
            from.read(first, {rows.data(), count, row, near_bytes_});
            copy_async(near_.span().subspan(first * near_bytes_), rows, in);
            in.synchronize(); // `rows` is written again
        }
        if (near_.empty() || all_near_) return;
        std::vector<std::uint32_t> slots(nodes, detail::far_row);
        near_rows_ = bitmap(nodes);
        const std::vector<node_id>& resident = *from.resident;
        for (std::size_t first = 0; first < resident.size(); first += some) {
            const std::size_t count = std::min(some, resident.size() - first);
            rows.resize(count * near_bytes_);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t id = resident[first + i];
                std::copy_n(far_.data() + id * far_bytes_, row, rows.data() + i * near_bytes_);
                slots.at(id) = static_cast<std::uint32_t>(first + i);
                near_rows_.set(id);
            }
            copy_async(near_.span().subspan(first * near_bytes_), rows, in);
            in.synchronize();
        }
        slots_ = device_buffer<std::uint32_t>(budget, "slots of features", nodes);
        copy_async(slots_.span(), slots, in);
        in.synchronize();
    }

    /// Views the rows of macro-batches, which are at the places of their nodes and outlive this.
    explicit device_feature_table(const device_macro_batches& of)
        : columns_(of.setup().columns),
          type_(of.setup().type),
          near_bytes_(of.setup().row_bytes()),
          far_bytes_(near_bytes_),
          all_near_(true),
          fused_(of.setup().fused),
          staged_(of.rows()) {}

    /// Returns the number of values of a row.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }

    /// True if layers may read rows at the nodes' ids, or places.
    [[nodiscard]] bool read_by_ids() const noexcept { return all_near_ && fused_; }
    /// True if the table is a cache.
    [[nodiscard]] bool cached() const noexcept { return cached_; }
    /// True if all rows are in the device's memory.
    [[nodiscard]] bool all_near() const noexcept { return all_near_; }
    /// Returns the rows of all nodes. Precondition: `read_by_ids`.
    [[nodiscard]] dense_rows<float> rows() const {
        dense_rows<float> all;
        with_type([&]<class In>(In) { all = near<In>(); });
        return all;
    }

    /// out[i] = the row of node ids[i], for i below *count, at most `capacity`.
    void gather(stream& in, const std::uint32_t* count, std::uint32_t capacity, const node_id* ids,
        rows_view<float> out) const {
        with_type([&]<class In>(In) {
            const rows_view<const In> far(reinterpret_cast<const In*>(far_.data()), columns_, far_bytes_ / sizeof(In));
            if (!slots_.empty())
                gather_tiers<In>(in, count, capacity, ids, slots_.data(), near<In>(), far, out);
            else
                gather_rows<float, In>(in, {count, capacity, nullptr, ids}, all_near_ ? near<In>() : far, out);
        });
    }
    /// Returns the bytes of the moves of a batch of at most `rows` rows in a transfer slot.
    [[nodiscard]] static std::uint64_t bytes_of_moves(std::size_t rows) noexcept {
        return transfer_slot::array_bytes(1, sizeof(std::uint32_t)) +
            transfer_slot::array_bytes(rows, sizeof(std::uint32_t)) +
            transfer_slot::array_bytes(rows, sizeof(cache_entry));
    }
    /// Puts the moves of a batch of at most `rows` rows into a slot, and counts the rows that pass the bus.
    /// \param brought  rows that the batch brings, on the device
    /// Throws errc::invalid_argument for a batch without places, as its features are not `device_cached_features`.
    [[nodiscard]] moves put(const training_batch& b, std::size_t rows, const float* brought, transfer_slot& to) const {
        const device_cache_moves& of = b.moves;
        if (of.places.size() != b.nodes.size() || (of.rows != 0 && of.row_bytes != near_bytes_))
            throw error(errc::invalid_argument, "a batch does not say which of its rows the device caches");
        for (const device_cache_entry& one : of.entries)
            if ((one.slot + std::uint64_t{1}) * near_bytes_ > near_.bytes())
                throw error(errc::invalid_argument, "a row enters a slot beyond those of the device's cache");
        static_assert(sizeof(cache_entry) == sizeof(device_cache_entry) &&
            offsetof(cache_entry, slot) == offsetof(device_cache_entry, slot) &&
            detail::brought_row == device_cache_moves::brought);
        const auto entries = static_cast<std::uint32_t>(of.entries.size());
        detail::note_over_bus(of.rows, of.bytes());
        const std::uint32_t* const count = to.put(std::span(&entries, 1)).device;
        const std::uint32_t* const places = to.put(std::span<const std::uint32_t>(of.places), rows).device;
        return {.places = places,
            .entries = reinterpret_cast<const cache_entry*>(
                to.put(std::span<const device_cache_entry>(of.entries), rows).device), // last: mostly room
            .entry_count = count,
            .most_entries = static_cast<std::uint32_t>(rows),
            .brought = reinterpret_cast<const std::byte*>(brought)};
    }
    /// out[i] = the row of the batch's i-th node, for i below *count, at most `capacity`; then lets rows enter.
    void gather(stream& in, const std::uint32_t* count, std::uint32_t capacity, const moves& of, rows_view<float> out) {
        with_type([&]<class In>(In) {
            const rows_view<const In> brought(
                reinterpret_cast<const In*>(of.brought), columns_, near_bytes_ / sizeof(In));
            gather_cached<In>(in, count, capacity, of.places, near<In>(), brought, out);
        });
        const std::size_t words = near_bytes_ / sizeof(std::uint32_t);
        keep_cached(in, of.entry_count, of.most_entries, of.entries,
            {reinterpret_cast<const std::uint32_t*>(of.brought), static_cast<std::uint32_t>(words), words},
            {reinterpret_cast<std::uint32_t*>(near_.data()), static_cast<std::uint32_t>(words), words});
    }
    /// Counts the rows that pass the bus when these nodes' rows are gathered: see `calls_so_far`.
    void note(std::span<const node_id> ids) const noexcept {
        if (all_near_ || cached_) return;
        std::uint64_t rows = ids.size();
        if (!slots_.empty())
            rows -= static_cast<std::uint64_t>(std::ranges::count_if(ids, [&](node_id id) { return near_rows_[id]; }));
        detail::note_over_bus(rows, rows * far_bytes_);
    }

private:
    /// Calls f with a value of the rows' type.
    template <class F>
    void with_type(F&& f) const {
        switch (type_) {
        case feature_type::f16: return f(float16{});
        case feature_type::bf16: return f(bfloat16{});
        default: return f(float{});
        }
    }
    template <class In>
    [[nodiscard]] rows_view<const In> near() const noexcept {
        const std::byte* const rows = staged_ != nullptr ? staged_ : near_.data();
        return {reinterpret_cast<const In*>(rows), columns_, near_bytes_ / sizeof(In)};
    }

    std::size_t columns_;
    feature_type type_;
    std::size_t near_bytes_, far_bytes_; ///< of a row
    bool cached_ = false, all_near_, fused_;
    device_buffer<std::byte> near_;      ///< rows of nodes or slots
    pinned_buffer<std::byte> far_;       ///< rows of nodes, unless all are near
    device_buffer<std::uint32_t> slots_; ///< [nodes] in `near_`, or `far_row`; of a tier
    bitmap near_rows_;                   ///< [nodes]; of a tier
    const std::byte* staged_ = nullptr;  ///< rows of macro-batches
};

} // namespace gneiss::cuda
