// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/core/row_slice.cuh>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/model/device/optimizer.cuh>
#include <gneiss/cuda/model/device/row_maps.cuh>
#include <gneiss/model/optimizer.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>
#include <gneiss/train/device_setup.hpp>

namespace gneiss::cuda {

/// Updates rows of a table of [values | state] by their gradients, for any of the library's optimizers: see
/// `step_rows`.
inline void step_rows_by(stream& in, const any_row_optimizer& optimizer, const step_state* at,
    const std::uint32_t* count, std::uint32_t capacity, const std::uint32_t* ids, rows_view<const float> gradients,
    rows_view<float> table) {
    with_device_optimizer(optimizer, [&](const auto& o) {
        step_rows<std::remove_cvref_t<decltype(o)>, float>(in, o, at, count, capacity, ids, nullptr, gradients, table);
    });
}

/// Embeddings of all nodes, with values and optimizer state, in device memory: the store `device`.
class device_rows {
public:
    /// Throws `over_budget`, `device_error`.
    device_rows(memory_budget& budget, const device_embeddings& of)
        : layout_(of.layout),
          table_(budget, "rows of nodes", static_cast<std::size_t>(of.nodes * of.layout.floats())) {}

    /// Returns the number of values of a row.
    [[nodiscard]] std::uint32_t dim() const noexcept { return layout_.dim; }

    /// Copies all rows from the host, or back to it, and waits.
    void take(const resident_embeddings& from, stream& in) {
        for_each_partition(
            from, [&](std::span<const float> host, std::span<float> here) { copy_async(here, host, in); });
        in.synchronize();
    }
    /// Copies all rows to the host and waits.
    void give(resident_embeddings& to, stream& in) {
        for_each_partition(to, [&](std::span<float> host, std::span<float> here) {
            copy_to_host_async(host, std::span<const float>(here), in);
        });
        in.synchronize();
    }

    /// out[i] = the values of node ids[i], for i below *count, at most `capacity`.
    void gather(
        stream& in, const std::uint32_t* count, std::uint32_t capacity, const node_id* ids, rows_view<float> out) {
        gather_rows<float>(in, {count, capacity, nullptr, ids}, values(), out);
    }
    /// Updates the rows of distinct nodes by their gradients.
    void step(stream& in, const any_row_optimizer& optimizer, const step_state* at, const std::uint32_t* count,
        std::uint32_t capacity, const node_id* ids, rows_view<const float> gradients) {
        step_rows_by(in, optimizer, at, count, capacity, ids, gradients, values());
    }

private:
    [[nodiscard]] rows_view<float> values() noexcept { return {table_.data(), layout_.dim, layout_.floats()}; }
    template <class Rows, class Visit>
    void for_each_partition(Rows& of, Visit&& visit) {
        std::span<float> rest = table_.span();
        for (partition_id p = 0; p < of.partitioning().partitions; ++p) {
            const auto host = of.numbers(p);
            visit(host, rest.first(host.size()));
            rest = rest.subspan(host.size());
        }
    }

    row_layout layout_;
    device_buffer<float> table_;
};

} // namespace gneiss::cuda
