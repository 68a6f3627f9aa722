// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/io/import/row_windows.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>

namespace gneiss {

/// Returns the least memory of `reorder_rows` [bytes]: two partitions, and a block of rows for each partition.
[[nodiscard]] inline std::uint64_t reorder_rows_memory(const row_partitioning& partitioning, const row_layout& layout) {
    const std::uint64_t block = std::max<std::uint64_t>(2048, layout.bytes() + 12);
    return 2 * embedding_file::slot_bytes_of(partitioning, layout) + partitioning.partitions * block;
}

/// Moves every row of an embedding file, value and optimizer state, to its place in a permutation: applies a dataset's
/// `reorder` to embeddings.
///
/// \param new_row  a map of `io/import/detail/id_maps.hpp`, old row → new row; `array_map` needs no memory of |V|
/// \param memory   at least `reorder_rows_memory`, besides the map; more makes larger blocks
/// \param scratch  a file of the rows' size, created and removed
///
/// Every partition gets a new version in a spare slot, so the last checkpoint stays whole; the caller commits a new
/// one.
/// Precondition: nothing was written since the last commit, and no partition is in a buffer. Cost: the rows are read
/// and written once, and once more in `scratch`.
/// Errors: over_budget; errc::no_space with fewer spare slots than partitions, before any read; errc::invalid_argument
/// for a map that is not a permutation; errc::corrupt; io_error. After an error the file is as the last checkpoint
/// names it.
template <class Map>
void reorder_rows(embedding_file& rows, Map& new_row, const std::filesystem::path& scratch, std::uint64_t memory) {
    const row_partitioning& cut = rows.partitioning();
    const std::uint64_t row_bytes = rows.layout().bytes(), least = reorder_rows_memory(cut, rows.layout());
    if (memory < least) throw over_budget(memory, {{"partitions and blocks of rows to reorder", least}});
    if (rows.disk_slots() - cut.partitions < cut.partitions)
        throw error(errc::no_space, "reordering rows needs a spare slot for every partition", {.path = rows.path()});
    if (cut.nodes == 0 || row_bytes == 0) return;
    auto slot = aligned_buffer<std::byte>::zeroed(static_cast<std::size_t>(rows.slot_bytes()));
    const auto repeated = [&](std::uint64_t row, std::uint64_t) {
        throw error(errc::invalid_argument, "two rows are sent to row " + std::to_string(row), {.path = rows.path()});
    };
    // A window of rows is a partition; one pass distributes all rows before the first is written.
    importing::arrange_rows(
        importing::row_windows(cut, row_bytes), new_row, true, memory - 2 * rows.slot_bytes(), scratch,
        [&](const auto& put) {
            for (partition_id p = 0; p < cut.partitions; ++p) {
                if (cut.size(p) == 0) continue;
                rows.read(p, slot.span());
                for (std::uint64_t i = 0; i < cut.size(p); ++i)
                    put(cut.begin(p) + i, i,
                        std::span<const std::byte>(slot.span())
                            .subspan(static_cast<std::size_t>(i * row_bytes), static_cast<std::size_t>(row_bytes)));
            }
        },
        [&](importing::row_window& window) {
            window.bytes.resize(window.seen.size() * static_cast<std::size_t>(row_bytes));
        },
        [&](const importing::row_window& window) {
            const partition_id p = cut.of(window.first);
            if (const auto hole = std::ranges::find(window.seen, false); hole != window.seen.end())
                throw error(errc::invalid_argument,
                    "no row is sent to row " +
                        std::to_string(window.first + static_cast<std::uint64_t>(hole - window.seen.begin())),
                    {.path = rows.path()});
            std::ranges::copy(window.bytes, slot.data());
            std::fill(slot.data() + window.bytes.size(), slot.data() + rows.bytes_of(p), std::byte{0});
            const auto to = rows.begin_write(p, 0);
            if (!to) throw error(errc::no_space, "no spare slot is left; commit first", {.path = rows.path()});
            rows.write(p, *to, slot.span());
        },
        repeated);
    for (partition_id p = 0; p < cut.partitions; ++p) // empty ones have a version too
        if (cut.size(p) == 0)
            if (const auto to = rows.begin_write(p, 0)) rows.write(p, *to, slot.span());
}

} // namespace gneiss
