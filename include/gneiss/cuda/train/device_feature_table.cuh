// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/recorder.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/train/device_setup.hpp>

namespace gneiss::cuda {

/// Features of all nodes that kernels read by id: see `device_features`.
///
/// Memory: device and pinned, as its rows say; of a tier 4 bytes of the device's per node. Thread-safety: one thread
/// gathers, others may count.
class device_feature_table {
public:
    /// Reads all rows. Throws over_budget, device_error; errors of `read`.
    device_feature_table(memory_budget& budget, const device_features& from)
        : columns_(from.columns),
          near_stride_(device_features::row_bytes(columns_) / sizeof(float)),
          far_stride_(device_features::pinned_row_bytes(columns_) / sizeof(float)),
          all_near_(!from.resident) {
        const auto nodes = static_cast<std::size_t>(from.nodes);
        near_ = device_buffer<float>(budget, "features", (all_near_ ? nodes : from.resident->size()) * near_stride_);
        if (!all_near_) far_ = pinned_buffer<float>(budget, "features", nodes * far_stride_);
        const stream in;
        const std::size_t some = std::max<std::size_t>((std::size_t{1} << 20) / near_stride_, 1);
        std::vector<float> rows;
        for (std::size_t first = 0; first < nodes; first += some) {
            const std::size_t count = std::min(some, nodes - first);
            if (!all_near_) {
                from.read(first, {far_.data() + first * far_stride_, count, columns_, far_stride_});
                continue;
            }
            rows.resize(count * near_stride_);
            from.read(first, {rows.data(), count, columns_, near_stride_});
            copy_async(near_.span().subspan(first * near_stride_), rows, in);
            in.synchronize(); // `rows` is written again
        }
        if (near_.empty() || all_near_) return;
        std::vector<std::uint32_t> slots(nodes, detail::far_row);
        near_rows_ = bitmap(nodes);
        const std::vector<node_id>& resident = *from.resident;
        for (std::size_t first = 0; first < resident.size(); first += some) {
            const std::size_t count = std::min(some, resident.size() - first);
            rows.resize(count * near_stride_);
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t id = resident[first + i];
                std::copy_n(far_.data() + id * far_stride_, columns_, rows.data() + i * near_stride_);
                slots.at(id) = static_cast<std::uint32_t>(first + i);
                near_rows_.set(id);
            }
            copy_async(near_.span().subspan(first * near_stride_), rows, in);
            in.synchronize();
        }
        slots_ = device_buffer<std::uint32_t>(budget, "slots of features", nodes);
        copy_async(slots_.span(), slots, in);
        in.synchronize();
    }

    /// Returns the number of values of a row.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }

    /// True if kernels of layers read rows at the nodes' ids. Rows that pass the bus are gathered instead, since layers
    /// read a row once for each of its edges.
    [[nodiscard]] bool read_by_ids() const noexcept { return all_near_; }
    /// Returns the rows of all nodes. Precondition: `read_by_ids`.
    [[nodiscard]] rows_view<const float> rows() const noexcept { return {near_.data(), columns_, near_stride_}; }

    /// out[i] = the row of node ids[i], for i below *count, at most `capacity`.
    void gather(stream& in, const std::uint32_t* count, std::uint32_t capacity, const node_id* ids,
        rows_view<float> out) const {
        const rows_view<const float> near(near_.data(), columns_, near_stride_),
            far(far_.data(), columns_, far_stride_);
        if (!slots_.empty()) return gather_rows(in, count, capacity, ids, slots_.data(), near, far, out);
        gather_rows<float>(in, {count, capacity, nullptr, ids}, all_near_ ? near : far, out);
    }
    /// Counts the rows that pass the bus when these nodes' rows are gathered: see `calls_so_far`.
    void note(std::span<const node_id> ids) const noexcept {
        if (all_near_) return;
        std::uint64_t rows = ids.size();
        if (!slots_.empty())
            rows -= static_cast<std::uint64_t>(std::ranges::count_if(ids, [&](node_id id) { return near_rows_[id]; }));
        detail::note_over_bus(rows, rows * far_stride_ * sizeof(float));
    }

private:
    std::size_t columns_, near_stride_, far_stride_;
    bool all_near_;
    device_buffer<float> near_;          ///< [nodes or slots, near_stride_]
    pinned_buffer<float> far_;           ///< [nodes, far_stride_], unless all are near
    device_buffer<std::uint32_t> slots_; ///< [nodes] in `near_`, or `far_row`; of a tier
    bitmap near_rows_;                   ///< [nodes]; of a tier
};

} // namespace gneiss::cuda
