// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/storage/concepts.cuh>
#include <gneiss/cuda/storage/copy_rows.cuh>
#include <gneiss/storage/feature/row_source.hpp>

namespace gneiss::cuda {

/// All rows in pinned host memory, read over the bus by kernels: no cache, no host thread, no intermediate copy. Use it
/// if only the device knows the ids, as when it samples, or if reuse is too small for a `device_tier`.
///
///     uva_rows<float> features(store, batch_rows, budget);
///     const edge_lists lists = gathered(incoming(sampler.layer(0)), sampler.nodes());
///     aggregate<float>(stream, lists, edge_weight::mean, features.view(), rows);
///
/// Cost: a row over the bus per id, repeats included, in whole lines of 128 bytes. Memory: the table, rows padded to
/// whole lines, charged as pinned; 4 bytes per id of the largest batch. Errors: those of `device_row_source`.
/// Thread-safety: one call at a time; any number of concurrent gathers by device ids.
template <storage T>
class uva_rows {
public:
    /// Reads all rows of `from`. Precondition: the budget outlives this. Throws `over_budget`, `device_error`, errors
    /// of the source; errc::invalid_argument if rows are not values of T.
    template <row_source From>
    uva_rows(From& from, std::size_t batch_rows, memory_budget& budget, std::size_t stages = 2)
        : rows_(from.rows()),
          columns_(detail::columns_of<T>(from)),
          batch_rows_(batch_rows),
          table_(budget, "rows in pinned memory", static_cast<std::size_t>(rows_) * stride()),
          bus_(budget, "ids on their way to the device", stages,
              transfer_slot::array_bytes(1, sizeof(std::uint32_t)) +
                  transfer_slot::array_bytes(batch_rows, sizeof(node_id))) {
        std::vector<node_id> ids;
        for (std::uint64_t row = 0; row < rows_; row += ids.size()) {
            ids.resize(static_cast<std::size_t>(std::min<std::uint64_t>(rows_ - row, 1 << 16)));
            std::iota(ids.begin(), ids.end(), static_cast<node_id>(row));
            from.gather(ids, {reinterpret_cast<std::byte*>(table_.data() + row * stride()), stride() * sizeof(T)});
        }
    }

    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
    /// Returns the number of values of a row.
    [[nodiscard]] std::size_t columns() const noexcept { return columns_; }
    /// Returns the table for kernels.
    [[nodiscard]] rows_view<const T> view() const noexcept { return {table_.data(), columns_, stride()}; }

    /// out[i] = row ids[i]; out [at least ids, columns].
    void gather(std::span<const node_id> ids, rows_view<T> out, stream& in) {
        detail::check_batch(ids, rows_, batch_rows_);
        if (ids.empty()) return;
        transfer_slot& bus = bus_.next();
        const auto count = bus.room<std::uint32_t>(1);
        count.host[0] = static_cast<std::uint32_t>(ids.size());
        const auto on_device = bus.put(ids);
        bus.copy_in(bus_.copies());
        bus.ready(in);
        gather_rows<T>(in, count.device, count.host[0], on_device.device, view(), out);
        bus.done(in);
        statistics_.gathered.rows += ids.size();
        statistics_.bus_bytes += bus.copied_bytes() + ids.size() * columns_ * sizeof(T);
    }

    /// Statistics of gathers by host ids; kernels that read `view()` by device ids are not counted.
    [[nodiscard]] device_gather_stats statistics() const noexcept { return statistics_; }

private:
    [[nodiscard]] std::size_t stride() const noexcept { return detail::line_stride<T>(columns_); }

    std::uint64_t rows_;
    std::size_t columns_, batch_rows_;
    pinned_buffer<T> table_; // [rows, stride]
    transfer_stage bus_;
    device_gather_stats statistics_;
};

static_assert(device_row_source<uva_rows<float>, float>);

} // namespace gneiss::cuda
