// SPDX-License-Identifier: Apache-2.0
// Rows that a checkpoint names: the slots of an embedding file.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

namespace gneiss {

/// Names the current slots of a file in a checkpoint.
inline void put_rows(checkpoint& to, const embedding_file& rows) {
    to.layout = rows.layout();
    to.partitioning = rows.partitioning();
    to.disk_slots = rows.disk_slots();
    to.slots = rows.slots();
    to.row_checksums = rows.checksums();
}

/// Opens the file at `path` with the slots that a checkpoint names, and at least `slots` slots. `rows` are its nodes,
/// in any partitions. Throws errc::config_mismatch for a checkpoint of other nodes, errc::corrupt for a file that is
/// shorter than its slots, io_error.
[[nodiscard]] inline std::unique_ptr<embedding_file> open_saved_rows(const engine_factory& engines,
    const std::filesystem::path& path, const row_partitioning& rows, const checkpoint& saved, std::uint32_t slots = 0) {
    if (saved.partitioning.nodes != rows.nodes || saved.partitioning.partitions == 0)
        throw error(errc::config_mismatch, "the checkpoint has rows of other nodes", {.path = path});
    const row_partitioning stored = rows.in(saved.partitioning.partitions);
    const std::uint64_t bytes = std::filesystem::file_size(path), row = saved.layout.bytes();
    const bool fits = row == 0 || stored.capacity() <= bytes / row; // else the bytes of a slot may exceed 64 bits
    if (!fits ||
        bytes / std::max<std::uint64_t>(embedding_file::slot_bytes_of(stored, saved.layout), 1) < saved.disk_slots)
        throw error(errc::corrupt,
            "is shorter than the " + std::to_string(saved.disk_slots) + " slots that the checkpoint names",
            {.path = path});
    return std::make_unique<embedding_file>(
        engines, path, stored, saved.layout, saved.slots, std::max(slots, saved.disk_slots), saved.row_checksums);
}

/// Writes the values of all rows, without optimizer state, into a new file at `path`, in the same partitions, and makes
/// them durable. Returns the file. Memory: one partition. Precondition: no epoch of the buffer is running.
[[nodiscard]] inline std::unique_ptr<embedding_file> copy_values(
    partition_buffer& from, const std::filesystem::path& path) {
    const engine_factory& engines = from.file().engines();
    const row_partitioning& partitioning = from.file().partitioning();
    const row_layout values{from.file().layout().dim, 0};
    {
        any_engine engine = engines();
        embedding_file::create(engine, path, partitioning, values, 0);
    }
    auto copy = std::make_unique<embedding_file>(engines, path, partitioning, values, 0);
    auto slot = aligned_buffer<float>::zeroed(static_cast<std::size_t>(copy->slot_bytes() / sizeof(float)));
    partition_id p = 0;
    from.for_each_block([&](std::uint64_t, matrix_view<const float> block) {
        for (std::size_t i = 0; i < block.rows(); ++i) std::ranges::copy(block[i], slot.data() + i * block.columns());
        const auto place = copy->begin_write(p, 0);
        copy->write(p, *place, slot.bytes());
        ++p;
    });
    copy->sync();
    return copy;
}

/// Replaces the values of all rows by those of a file of `copy_values`; the state of the optimizer stays. Memory: one
/// partition, and the buffer's. Precondition: no epoch of the buffer is running; the file has a spare slot for every
/// partition.
inline void take_values(partition_buffer& to, embedding_file& from) {
    epoch_plan states;
    for (partition_id p = 0; p < from.partitioning().partitions; ++p)
        states.push_back({.resident = {p}, .edge_buckets = {}});
    auto slot = aligned_buffer<float>::zeroed(static_cast<std::size_t>(from.slot_bytes() / sizeof(float)));
    const std::size_t dim = from.layout().dim;
    to.begin_epoch(states);
    for (partition_id p = 0; p < states.size(); ++p) {
        from.read(p, slot.bytes());
        auto lease = to.acquire(p);
        if (!lease) throw error(errc::no_space, "no spare slot is left", {.path = to.file().path()});
        const std::span<float> rows = (*lease)->numbers(p);
        for (std::size_t i = 0, floats = to.file().layout().floats(); i * floats < rows.size(); ++i)
            std::copy_n(slot.data() + i * dim, dim, rows.data() + i * floats);
    }
    to.end_epoch();
}

} // namespace gneiss
