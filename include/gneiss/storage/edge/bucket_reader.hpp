// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_queue.hpp>

namespace gneiss {

/// Reads edge buckets through an engine, bypassing the page cache if the engine can, and decodes them to global ids.
///
/// Memory: `need`, not charged: the largest block or, for small blocks, 1 MiB or 16 of them, whichever is less; it
/// bounds the buckets in flight. Thread-safety: one thread loads; `statistics` from any. Errors: io_error;
/// errc::corrupt with path and offset.
class bucket_reader {
public:
    /// The store must outlive this.
    bucket_reader(const bucket_store& store, engine_factory engines) : store_(store), engines_(std::move(engines)) {}
    bucket_reader(const bucket_store&&, engine_factory) = delete; // the store must outlive the reader

    /// Returns the memory of a reader.
    [[nodiscard]] static memory_need need(const bucket_store& store) {
        const std::uint64_t one = store.largest_block(edge_direction::out) + 2 * page_alignment;
        return {"bucket blocks", std::max(one, std::min(16 * one, std::uint64_t{1} << 20))};
    }

    /// Fills `to` [extent(bucket).edges] with the bucket's edges in stored order. One read. Throws
    /// errc::invalid_argument for another size of `to`, or without engines; errc::out_of_range for a bucket beyond the
    /// store.
    void load(edge_bucket bucket, std::span<edge> to) { load(std::span(&bucket, 1), std::span(&to, 1)); }

    /// The same for several buckets, each into its span: one read per bucket with edges, in the given order, several in
    /// flight.
    void load(std::span<const edge_bucket> buckets, std::span<const std::span<edge>> to) {
        if (buckets.size() != to.size())
            throw error(errc::invalid_argument,
                std::to_string(buckets.size()) + " buckets are loaded into " + std::to_string(to.size()) + " places");
        for (std::size_t i = 0; i < buckets.size(); ++i)
            if (const std::uint64_t edges = store_.extent(buckets[i]).edges; to[i].size() != edges)
                throw error(errc::invalid_argument,
                    "a bucket of " + std::to_string(edges) + " edges is loaded into room for " +
                        std::to_string(to[i].size()));
        if (!queue_) open();
        try {
            for (std::size_t next = 0; next < buckets.size() || !reads_.empty();) {
                for (; next < buckets.size(); ++next)
                    if (!to[next].empty() && !begin(buckets[next], next)) break;
                queue_->submit();
                if (reads_.empty()) continue;
                while (!reads_.front().done)
                    if (const auto done = queue_->next_done())
                        reads_[static_cast<std::size_t>(*done + reads_.size() - begun_)].done = true;
                const read& first = reads_.front();
                take(buckets[first.index], first.bytes, to[first.index]);
                reads_.pop_front();
            }
        } catch (...) { // the caller reuses its memory
            queue_->abandon();
            reads_.clear();
            throw;
        }
        const std::scoped_lock lock(mutex_);
        statistics_ = queue_->stats();
    }

    /// Returns this as the loader of an `edge_buffer`. This must outlive it.
    [[nodiscard]] edge_loader source() {
        return {.size = [this](edge_bucket b) { return static_cast<edge_index>(store_.extent(b).edges); },
            .load = [this](edge_bucket b, std::span<edge> to) { load(b, to); },
            .rows = store_.rows(),
            .load_many = [this](std::span<const edge_bucket> b, std::span<const std::span<edge>> to) { load(b, to); }};
    }

    [[nodiscard]] io_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    struct read {
        std::size_t index = 0;  // index of the bucket in the call
        std::size_t offset = 0; // in the buffer, which is used as a ring in the order of the reads
        std::size_t end = 0;
        std::span<std::byte> bytes; // bytes of the block
        bool done = false;
    };

    void open() {
        auto engine = std::make_unique<any_engine>(make_engine(engines_));
        auto opened = std::make_unique<file>(*engine, store_.path(edge_direction::out), open_options{.direct = true});
        buffer_ = aligned_buffer<std::byte>(static_cast<std::size_t>(need(store_).bytes));
        queue_ = std::make_unique<io_queue>(*engine); // all of it or, if something throws, nothing
        file_ = std::move(opened);
        engine_ = std::move(engine);
    }

    /// Returns where `length` bytes are free in the buffer after the newest read; empty if they are not.
    [[nodiscard]] std::optional<std::size_t> room(std::size_t length) const {
        if (reads_.empty()) return 0;
        const std::size_t first = reads_.front().offset, end = reads_.back().end;
        if (end > first) {
            if (length <= buffer_.size() - end) return end;
            return length <= first ? std::optional<std::size_t>(0) : std::nullopt;
        }
        return length <= first - end ? std::optional(end) : std::nullopt;
    }

    /// Starts reading a bucket. Returns false if the buffer is full.
    bool begin(edge_bucket bucket, std::size_t index) {
        const byte_range range = store_.extent(bucket).range(edge_direction::out);
        const std::uint64_t offset = store_.data_offset(edge_direction::out) + range.offset;
        const auto length = static_cast<std::size_t>(range.length);
        const std::size_t needed = round_up(align_range(offset, length, file_->alignment()).length, alignment);
        const std::optional<std::size_t> at = room(needed);
        if (!at) return false;
        read& one = reads_.emplace_back(read{index, *at, *at + needed, {}, false});
        one.bytes = queue_->read_unaligned(*file_, offset, length, buffer_.bytes().subspan(*at, needed), begun_);
        ++begun_;
        return true;
    }
    void take(edge_bucket bucket, std::span<const std::byte> bytes, std::span<edge> to) {
        const edge_block block = store_.parse_and_verify(bytes, bucket, edge_direction::out);
        decode(block, static_cast<node_id>(store_.rows().begin(bucket.first)),
            static_cast<node_id>(store_.rows().begin(bucket.second)), to);
    }

    static constexpr std::size_t alignment = 64; // alignment of blocks in the buffer if the file requires none

    const bucket_store& store_;
    engine_factory engines_;
    std::unique_ptr<any_engine> engine_;
    std::unique_ptr<file> file_;
    std::unique_ptr<io_queue> queue_;
    aligned_buffer<std::byte> buffer_;
    std::deque<read> reads_;  // oldest first
    std::uint64_t begun_ = 0; // reads so far: their tags
    mutable std::mutex mutex_;
    io_stats statistics_;
};

} // namespace gneiss
