// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/device.cuh>
#include <gneiss/cuda/core/memory.cuh>
#include <gneiss/cuda/sample/detail/batch_state.cuh>

namespace gneiss::cuda {

/// The table in which samplers look up the numbers of a batch's nodes: one for all samplers of a graph.
///
///     node_numbers numbers(budget, graph.view().nodes);
///     dense_sampler<> first(budget, numbers, graph.view(), …), second(budget, numbers, graph.view(), …);
///
/// A batch has the table for itself from its first kernel to its last: samplers of several streams wait for one another
/// by an event. Each batch marks its entries by a stamp of its own, so that nothing is cleared between batches.
/// Memory: 8 bytes per node. Outlives its samplers.
class node_numbers {
public:
    /// \param stamps  batches between clearings of the table
    ///
    /// Throws `over_budget`, `device_error`.
    node_numbers(memory_budget& budget, std::uint64_t nodes, std::uint32_t stamps = ~std::uint32_t{0} - 1)
        : words_(budget, "numbers of nodes", static_cast<std::size_t>(nodes)),
          stamp_(budget, "stamp of a sample", 1),
          stamps_(stamps) {
        fill_bytes_async(stamp_.span(), 0, nullptr);
        synchronize_device();
    }

    /// Returns the number of nodes.
    [[nodiscard]] std::uint64_t nodes() const noexcept { return words_.size(); }
    /// Returns the table for kernels of a batch in `state`, in device memory.
    [[nodiscard]] detail::number_table table(detail::batch_state* state) noexcept {
        return {words_.data(), stamp_.data(), stamps_, state};
    }

private:
    device_buffer<unsigned long long> words_;
    device_buffer<std::uint32_t> stamp_; ///< of the last batch
    std::uint32_t stamps_;
};

} // namespace gneiss::cuda
