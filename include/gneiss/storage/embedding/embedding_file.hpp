// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/matrix_view.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/storage/embedding/slot_map.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/io_stats.hpp>

namespace gneiss {

/// Rows of value and optimizer state on disk, partition by partition, in slots that a `slot_map` assigns.
///
///     embedding_file::create(engine, path, partitioning, layout, 2);   // 2 spare slots
///     embedding_file file(engines, path, partitioning, layout, 2);
///     file.fill([&](std::uint64_t first_row, matrix_view<float> rows) { … });
///     file.sync();
///
/// Every partition is written whole into one slot, with a checksum for each block of 1 MiB, seeded with the block's
/// place; a read verifies them, so a torn, stale or misplaced block is an error and never a row. The current assignment
/// is in memory; it becomes the state after a crash when a checkpoint names it. Reading opens the file read-only.
///
/// Thread-safety: one thread may read while another writes and a third syncs; each has its own engine.
///
/// From examples/03_own_decoder.cpp:
/// \snippet 03_own_decoder.cpp file
class embedding_file {
public:
    /// Creates the file, sparse: slots take disk space when written. Discards an existing file of that name. Throws
    /// io_error; errc::invalid_argument for no partitions, or rows of no floats; errc::out_of_range for more bytes than
    /// a file has.
    static void create(any_engine& engine, const std::filesystem::path& path, const row_partitioning& partitioning,
        const row_layout& layout, std::uint32_t spare) {
        check_shape(partitioning, layout, spare);
        file result(engine, path, {.write = true, .create = true, .truncate = true});
        result.resize(slot_bytes_of(partitioning, layout) * (partitioning.partitions + std::uint64_t{spare}));
    }

    /// Opens a file whose partitions must all be written before they are read. Throws as `create` for its shape.
    embedding_file(engine_factory engines, std::filesystem::path path, const row_partitioning& partitioning,
        row_layout layout, std::uint32_t spare)
        : embedding_file(
              std::move(engines), std::move(path), partitioning, layout, slot_map(partitioning.partitions, spare)) {}

    /// Opens the state of a checkpoint: `slots` and `checksums` (see `checksums()`) of every partition.
    embedding_file(engine_factory engines, std::filesystem::path path, const row_partitioning& partitioning,
        row_layout layout, std::span<const disk_slot> slots, std::uint32_t disk_slots,
        std::span<const std::uint64_t> checksums)
        : embedding_file(std::move(engines), std::move(path), partitioning, layout, slot_map(slots, disk_slots)) {
        if (checksums.size() != blocks_ * partitioning.partitions)
            throw error(
                errc::corrupt, "has checksums for another number of blocks", {.path = path_, .field = "row checksums"});
        checksums_.assign(checksums.begin(), checksums.end());
    }

    [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
    /// Returns the maker of the engines that read and write the file.
    [[nodiscard]] const engine_factory& engines() const noexcept { return engines_; }
    /// Returns the partitions of the rows.
    [[nodiscard]] const row_partitioning& partitioning() const noexcept { return partitioning_; }
    /// Returns the layout of a row.
    [[nodiscard]] const row_layout& layout() const noexcept { return layout_; }
    /// Returns the bytes of a partition on disk and in memory, padded for direct I/O.
    [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return slot_bytes_of(partitioning_, layout_); }
    /// Returns the bytes of a disk slot.
    [[nodiscard]] static std::uint64_t slot_bytes_of(const row_partitioning& partitioning, const row_layout& layout) {
        return round_up(partitioning.capacity() * layout.bytes(), std::uint64_t{page_alignment});
    }
    /// Returns the bytes that a load or a write of partition `p` moves: its rows, padded.
    [[nodiscard]] std::uint64_t bytes_of(partition_id p) const noexcept {
        return round_up(partitioning_.size(p) * layout_.bytes(), std::uint64_t{page_alignment});
    }
    /// Returns the number of disk slots.
    [[nodiscard]] std::uint32_t disk_slots() const noexcept { return slots_.slots(); }

    /// Fills `to` [≥ bytes_of(p)] with the newest version of `p`. Throws io_error, or error(corrupt);
    /// errc::invalid_argument for a partition that does not exist, or memory of another size.
    void read(partition_id p, std::span<std::byte> to) {
        check_memory(p, to.size());
        read_blocks(p, 0, to.first(bytes_of(p)));
    }
    /// Fills `to` with a part of the newest version of `p`, from byte `first` · `checksum_block_bytes` on: whole
    /// blocks, or up to `bytes_of(p)`. Throws as `read`.
    void read_blocks(partition_id p, std::size_t first, std::span<std::byte> to) {
        check_partition(p);
        const std::uint64_t begin_byte = std::uint64_t{first} * checksum_block_bytes, bytes = bytes_of(p);
        if (begin_byte > bytes || to.size() > bytes - begin_byte ||
            (to.size() % checksum_block_bytes != 0 && to.size() != bytes - begin_byte))
            throw error(errc::invalid_argument,
                "a part of partition " + std::to_string(p) + " is read that does not end at a block",
                {.path = path_, .offset = begin_byte, .length = to.size()});
        disk_slot slot;
        std::vector<std::uint64_t> expected;
        {
            const std::scoped_lock lock(mutex_);
            slot = slots_.current(p);
            const auto sums = checksums_.begin() + static_cast<std::ptrdiff_t>(p * blocks_);
            expected.assign(sums, sums + static_cast<std::ptrdiff_t>(blocks_));
        }
        if (to.empty()) return;
        const std::uint64_t begin = offset_of(slot) + first * checksum_block_bytes;
        std::size_t bad = blocks_; // first corrupt block; the others are still read, since their requests use `to`
        reader_.use(*this, {.write = false, .direct = true}, [&](io_queue& queue, file& at) {
            for_each_block(to, [&](std::size_t block, std::span<std::byte> data) {
                queue.read(at, begin + block * checksum_block_bytes, data, block);
            });
            while (const auto done = queue.next_done()) { // summed in order of arrival, while others are in flight
                const auto block = static_cast<std::size_t>(*done);
                if (checksum(block_of(to, block), seed_of(slot, first + block)) != expected[first + block])
                    bad = std::min(bad, block);
            }
        });
        if (bad < blocks_)
            throw error(errc::corrupt, "the checksum of partition " + std::to_string(p) + " does not match",
                {.path = path_, .offset = begin + bad * checksum_block_bytes, .length = block_of(to, bad).size()});
    }

    /// Returns a disk slot for the next version of `p`; empty if a commit must come first (see slot_map). Throws
    /// io_error after a failed sync: earlier writes may be lost, so memory holds the only copy and must not be freed;
    /// errc::invalid_argument for a partition that does not exist.
    [[nodiscard]] std::optional<disk_slot> begin_write(partition_id p, std::uint32_t reserve) {
        check_partition(p);
        const std::scoped_lock lock(mutex_);
        if (poison_ != 0) throw io_error(poison_, "refused after a failed sync", {.path = path_});
        return slots_.begin_write(p, slots_.slots() - slots_.partitions() >= slots_.partitions() ? 0 : reserve);
    }
    /// Writes the version of `p` in `from` to the slot from `begin_write`. If it throws io_error, the slot is returned:
    /// call `begin_write` again. Throws errc::invalid_argument for a partition or slot that does not exist, or fewer
    /// bytes than bytes_of(p).
    void write(partition_id p, disk_slot slot, std::span<const std::byte> from) {
        check_memory(p, from.size());
        if (slot.value() >= disk_slots())
            throw error(errc::invalid_argument,
                "disk slot " + std::to_string(slot.value()) + " of " + std::to_string(disk_slots()), {.path = path_});
        const auto bytes = from.first(bytes_of(p));
        std::vector<std::uint64_t> sums(blocks_, 0);
        try {
            writer_.use(*this, {.write = true, .direct = true}, [&](io_queue& queue, file& at) {
                for_each_block(bytes, [&](std::size_t block, std::span<const std::byte> data) {
                    sums[block] = checksum(data, seed_of(slot, block));
                    queue.write(at, offset_of(slot) + block * checksum_block_bytes, data, block);
                    queue.submit(); // the device writes while the next block is summed
                });
            });
        } catch (...) { // no request for the slot is in flight
            const std::scoped_lock lock(mutex_);
            slots_.abandon_write(p, slot);
            throw;
        }
        const std::scoped_lock lock(mutex_);
        std::ranges::copy(sums, checksums_.begin() + static_cast<std::ptrdiff_t>(p * blocks_));
        slots_.finish_write(p, slot);
    }

    /// Writes a version of every partition: `values(first_row, rows [n, dim + state])` fills a block of zeros or of its
    /// previous values. Throws io_error; errc::no_space if spare slots run out. Memory: one slot.
    template <class Values>
    void fill(Values&& values) {
        auto slot = aligned_buffer<float>::zeroed(static_cast<std::size_t>(slot_bytes() / sizeof(float)));
        for (partition_id p = 0; p < partitioning_.partitions; ++p) {
            const auto to = begin_write(p, 0);
            if (!to) throw error(errc::no_space, "no spare slot is left; commit first", {.path = path_});
            values(partitioning_.begin(p),
                matrix_view<float>(slot.data(), static_cast<std::size_t>(partitioning_.size(p)), layout_.floats()));
            write(p, *to, slot.bytes());
        }
    }

    /// Waits until all writes are on the device. Throws io_error; never retried after a failure.
    void sync() {
        syncer_.use(*this, {.write = true, .direct = true}, [&](io_queue& queue, file& at) {
            try {
                queue.sync(at, 0);
                queue.drain();
            } catch (const io_error&) {
                const std::scoped_lock lock(mutex_);
                poison_ = at.poison();
                throw;
            }
        });
    }
    /// Records that a durable checkpoint names the current slots: those of the previous one may be overwritten.
    void commit() {
        const std::scoped_lock lock(mutex_);
        slots_.commit();
    }

    /// Returns the slot of each partition's newest version.
    [[nodiscard]] std::vector<disk_slot> slots() const {
        const std::scoped_lock lock(mutex_);
        return {slots_.all_current().begin(), slots_.all_current().end()};
    }
    /// Returns the checksums of the current versions: ⌈slot_bytes / 1 MiB⌉ per partition, partition by partition.
    [[nodiscard]] std::vector<std::uint64_t> checksums() const {
        const std::scoped_lock lock(mutex_);
        return checksums_;
    }
    [[nodiscard]] io_stats statistics() const {
        return reader_.statistics() + writer_.statistics() + syncer_.statistics();
    }

private:
    /// One thread's access to the file: engine and queue are made at the first use, in the thread that uses them. After
    /// a use, successful or not, nothing is in flight.
    class channel {
    public:
        template <class Body>
        void use(const embedding_file& rows, const open_options& how, Body&& body) {
            if (!queue_) { // all of it or, if something throws, nothing: the next use retries
                auto engine = std::make_unique<any_engine>(make_engine(rows.engines_));
                auto opened = std::make_unique<file>(*engine, rows.path_, how);
                queue_ = std::make_unique<io_queue>(*engine);
                engine_ = std::move(engine);
                file_ = std::move(opened);
            }
            try {
                body(*queue_, *file_);
                queue_->drain();
            } catch (...) {
                queue_->abandon();
                throw;
            }
            const std::scoped_lock lock(mutex_);
            statistics_ = queue_->stats();
        }
        [[nodiscard]] io_stats statistics() const {
            const std::scoped_lock lock(mutex_);
            return statistics_;
        }

    private:
        std::unique_ptr<any_engine> engine_;
        std::unique_ptr<file> file_;
        std::unique_ptr<io_queue> queue_;
        mutable std::mutex mutex_;
        io_stats statistics_;
    };

    embedding_file(engine_factory engines, std::filesystem::path path, const row_partitioning& partitioning,
        row_layout layout, slot_map slots)
        : engines_(std::move(engines)),
          path_(std::move(path)),
          partitioning_(partitioning),
          layout_(layout),
          blocks_(blocks_of(partitioning, layout, slots.slots())),
          slots_(std::move(slots)),
          checksums_(blocks_ * partitioning.partitions, 0) {
        if (slots_.partitions() != partitioning_.partitions)
            throw error(errc::invalid_argument,
                "has " + std::to_string(slots_.partitions()) + " slots of partitions for " +
                    std::to_string(partitioning_.partitions),
                {.path = path_});
    }

    static void check_shape(const row_partitioning& rows, const row_layout& layout, std::uint32_t spare) {
        if (rows.partitions == 0 || layout.floats() == 0)
            throw error(errc::invalid_argument, "a file of rows needs at least one partition, and a float in a row");
        const std::uint64_t slots = rows.partitions + std::uint64_t{spare};
        if (rows.capacity() > (std::uint64_t{1} << 62) / layout.bytes() / slots)
            throw error(errc::out_of_range,
                "a file of " + std::to_string(slots) + " slots of " + std::to_string(rows.capacity()) + " rows of " +
                    std::to_string(layout.bytes()) + " bytes is larger than a file can be");
    }
    [[nodiscard]] static std::size_t blocks_of(
        const row_partitioning& rows, const row_layout& layout, std::uint32_t slots) {
        check_shape(rows, layout, slots);
        return static_cast<std::size_t>(ceil_div(slot_bytes_of(rows, layout), std::uint64_t{checksum_block_bytes}));
    }
    void check_partition(partition_id p) const {
        if (p >= partitioning_.partitions)
            throw error(errc::invalid_argument,
                "partition " + std::to_string(p) + " of " + std::to_string(partitioning_.partitions), {.path = path_});
    }
    void check_memory(partition_id p, std::size_t bytes) const {
        check_partition(p);
        if (bytes < bytes_of(p))
            throw error(errc::invalid_argument,
                "memory of " + std::to_string(bytes) + " bytes for partition " + std::to_string(p) + " of " +
                    std::to_string(bytes_of(p)),
                {.path = path_});
    }

    [[nodiscard]] std::uint64_t offset_of(disk_slot slot) const noexcept { return slot.value() * slot_bytes(); }

    [[nodiscard]] std::uint64_t seed_of(disk_slot slot, std::size_t block) const noexcept {
        return block_seed(file_id, slot.value() * std::uint64_t{blocks_} + block);
    }
    template <class Byte>
    [[nodiscard]] static std::span<Byte> block_of(std::span<Byte> bytes, std::size_t block) noexcept {
        const std::size_t begin = block * checksum_block_bytes;
        return bytes.subspan(begin, std::min(checksum_block_bytes, bytes.size() - begin));
    }
    template <class Byte, class Body>
    static void for_each_block(std::span<Byte> bytes, Body&& body) {
        for (std::size_t block = 0; block * checksum_block_bytes < bytes.size(); ++block)
            body(block, block_of(bytes, block));
    }

    static constexpr std::uint64_t file_id = 0x726f7773; // "rows"

    engine_factory engines_;
    std::filesystem::path path_;
    row_partitioning partitioning_;
    row_layout layout_;
    std::size_t blocks_; // checksum blocks per slot
    channel reader_, writer_, syncer_;

    mutable std::mutex mutex_; // guards the members below
    slot_map slots_;
    std::vector<std::uint64_t> checksums_;
    int poison_ = 0; // errno of the failed sync
};

} // namespace gneiss
