// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/feature/feature_store.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/io_stats.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// The features of one partition's rows in memory, as stored.
class feature_block {
public:
    /// Stored bytes of one array.
    struct part {
        aligned_buffer<std::byte> memory{}; ///< bytes as read
        std::span<std::byte> bytes{};       ///< the rows, within it
    };

    [[nodiscard]] part& operator[](feature_part p) noexcept { return parts_[static_cast<std::size_t>(p)]; }
    [[nodiscard]] const part& operator[](feature_part p) const noexcept { return parts_[static_cast<std::size_t>(p)]; }

    /// Returns the values, as stored.
    [[nodiscard]] const std::byte* stored_values() const noexcept { return (*this)[feature_part::values].bytes.data(); }
    /// Returns the begin of each sparse row.
    [[nodiscard]] std::span<const std::uint64_t> offsets() const noexcept {
        return as<std::uint64_t>(feature_part::offsets);
    }
    /// Returns the columns of the values of sparse rows.
    [[nodiscard]] std::span<const std::uint32_t> indices() const noexcept {
        return as<std::uint32_t>(feature_part::indices);
    }

private:
    template <class T>
    [[nodiscard]] std::span<const T> as(feature_part p) const noexcept { // aligned as in the file
        const std::span<const std::byte> bytes = (*this)[p].bytes;
        return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
    }

    std::array<part, all_feature_parts.size()> parts_{};
};

/// Reads the features of partitions by an engine, past the page cache, verified.
///
///     feature_reader reader(store, engines);
///     feature_block block;                                      // its memory is used again by the next read
///     reader.read({&p, 1}, {&block, 1});
///
/// Used by one thread at a time. Errors: `io_error`; errc::corrupt with path and offset; the next read starts over.
class feature_reader {
public:
    /// \param store  outlives this
    feature_reader(const feature_store& store, engine_factory engines) : store_(store), engines_(std::move(engines)) {}
    feature_reader(const feature_store&&, engine_factory) = delete; // the store must outlive the reader

    /// Returns the memory of one array of a partition's block [bytes], a multiple of pages.
    [[nodiscard]] static std::uint64_t bytes_needed(const feature_store& store, partition_id p, feature_part part) {
        const byte_range range = store.blocks(p, part);
        return range.length == 0 ? 0
                                 : round_up(range.length, page_alignment) + page_alignment; // rounded for direct reads
    }
    /// Returns the memory of a partition's block [bytes].
    [[nodiscard]] static std::uint64_t bytes_needed(const feature_store& store, partition_id p) {
        std::uint64_t sum = 0;
        for (const feature_part part : all_feature_parts) sum += bytes_needed(store, p, part);
        return sum;
    }

    /// Reads partitions, all at once. The memory of a block's array is replaced only if it is too small.
    /// \param to    outlives this, or a successful read, whichever ends first
    /// \param room  bytes to leave free before the values of each block, rounded up to pages
    /// Throws errc::invalid_argument unless there is a block for each partition, or without engines; errc::out_of_range
    /// for a partition beyond the store.
    void read(std::span<const partition_id> partitions, std::span<feature_block> to, std::size_t room = 0) {
        if (partitions.size() != to.size())
            throw error(errc::invalid_argument,
                std::to_string(partitions.size()) + " partitions are read into " + std::to_string(to.size()) +
                    " blocks");
        if (!queue_) {
            engine_ = std::make_unique<any_engine>(make_engine(engines_));
            queue_ = std::make_unique<io_queue>(*engine_);
        }
        const std::size_t free = round_up(room, page_alignment);
        try {
            for (std::size_t i = 0; i < partitions.size(); ++i)
                for (const feature_part part : all_feature_parts)
                    start(partitions[i], part, to[i][part], part == feature_part::values ? free : 0);
            queue_->drain();
        } catch (...) {
            queue_->abandon(); // before the memory is freed
            throw;
        }
        for (std::size_t i = 0; i < partitions.size(); ++i) {
            for (const feature_part part : all_feature_parts) verify(partitions[i], part, to[i][part]);
            if (store_.sparse()) store_.check(partitions[i], to[i].offsets(), to[i].indices());
        }
    }

    /// Returns what was read.
    [[nodiscard]] io_stats statistics() const { return queue_ ? queue_->stats() : io_stats{}; }

private:
    void start(partition_id p, feature_part part, feature_block::part& to, std::size_t free) {
        to.bytes = {};
        const std::uint64_t bytes = bytes_needed(store_, p, part);
        if (bytes == 0) return;
        auto& from = files_[static_cast<std::size_t>(part)];
        if (!from) from = std::make_unique<file>(*engine_, store_.file(part).path, open_options{.direct = true});
        const std::size_t size = free + static_cast<std::size_t>(bytes);
        if (to.memory.size() < size) {
            to.memory = {}; // never two at once
            to.memory = aligned_buffer<std::byte>(size);
            advise_huge_pages(to.memory.data(), to.memory.size());
        }
        const byte_range blocks = store_.blocks(p, part);
        to.bytes = queue_->read_unaligned(*from, store_.file(part).checksums.data_offset() + blocks.offset,
            static_cast<std::size_t>(blocks.length), to.memory.bytes().subspan(free));
    }
    /// Verifies the blocks and narrows them to the partition's rows.
    void verify(partition_id p, feature_part part, feature_block::part& of) const {
        if (of.bytes.empty()) return;
        const byte_range blocks = store_.blocks(p, part), wanted = store_.range(p, part);
        store_.file(part).checksums.verify(store_.file(part).path, blocks.offset, of.bytes);
        of.bytes = of.bytes.subspan(
            static_cast<std::size_t>(wanted.offset - blocks.offset), static_cast<std::size_t>(wanted.length));
    }

    const feature_store& store_;
    engine_factory engines_;
    std::unique_ptr<any_engine> engine_; // before what uses it
    std::array<std::unique_ptr<file>, all_feature_parts.size()> files_;
    std::unique_ptr<io_queue> queue_;
};

} // namespace gneiss
