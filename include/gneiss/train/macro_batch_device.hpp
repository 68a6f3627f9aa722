// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <gneiss/core/matrix_view.hpp>
#include <gneiss/sample/fanout.hpp>
#include <gneiss/sample/macro_batch.hpp>
#include <gneiss/storage/feature/feature_type.hpp>
#include <gneiss/train/driven_batch.hpp>

namespace gneiss {

/// Returns the fan-outs by which a sampler that knows nothing of macro-batches draws what `second_stage_sampler` does,
/// of lists of one direction: for lists that are taken whole, the most neighbors that the first stage draws of a node,
/// which bounds a sample as in one stage.
/// \param first   of the hops of the first stage
/// \param second  as of `second_stage_sampler`
[[nodiscard]] inline std::vector<hop_fanout> bounded_fanout(
    second_stage form, std::span<const hop_fanout> first, std::span<const hop_fanout> second) {
    const auto total = [](const hop_fanout& of) { return std::uint64_t{of.in} + of.out + of.both; };
    std::uint64_t all = 0;
    for (const hop_fanout& of : first) all += total(of);
    std::vector<hop_fanout> result;
    for (std::size_t h = 0; h < second.size(); ++h) {
        const bool sliced = form == second_stage::hops, whole = total(second[h]) >= all_neighbors;
        const std::uint64_t most = sliced ? total(first[h]) : whole ? all : total(second[h]);
        result.push_back({.in = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, all_neighbors))});
    }
    return result;
}

/// A device that keeps copies of the macro-batches that are alive, at most two: their graphs, and rows of dense
/// features in one table, in which a row that both have is once.
///
/// Called by the thread that makes macro-batches, while batches of the one before are sampled and computed. Errors:
/// over_budget for a macro-batch beyond what the device has room for; others of the device.
class macro_batch_device {
public:
    macro_batch_device() = default;
    macro_batch_device(const macro_batch_device&) = delete;
    macro_batch_device& operator=(const macro_batch_device&) = delete;
    virtual ~macro_batch_device() = default;

    /// True if it keeps graphs, from which batches are drawn there: with one list of a node, or one for each hop.
    [[nodiscard]] virtual bool keeps_graphs() const noexcept = 0;
    /// True if it keeps rows of features: then the host has none.
    [[nodiscard]] virtual bool keeps_rows() const noexcept = 0;
    /// Returns the number of rows that it has room for, and their columns. The place after them has a row of zeros.
    [[nodiscard]] virtual std::uint64_t row_capacity() const noexcept = 0;
    [[nodiscard]] virtual std::size_t columns() const noexcept = 0;
    /// Returns the type of the rows there: that of the source, or f32.
    [[nodiscard]] virtual feature_type row_type() const noexcept = 0;
    /// Writes rows that go to the device, from number `first` on, as values of `row_type`.
    using row_reader = std::function<void(std::size_t first, matrix_view<std::byte> to)>;
    /// Copies a row to each place of the table; no batch in flight reads these places.
    virtual void put_rows(std::span<const std::uint32_t> places, const row_reader& read) = 0;
    /// Copies the graph of macro-batch `index` of an epoch, and waits until it and the rows are there. It stays until
    /// the lease is dropped.
    /// \param places  [nodes] of their rows in the table; empty: the host has the rows
    [[nodiscard]] virtual lease put(
        std::uint64_t epoch, std::uint64_t index, const macro_batch& graph, std::span<const std::uint32_t> places) = 0;
};

} // namespace gneiss
