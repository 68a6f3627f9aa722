// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/edge/edge_buffer.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_queue.hpp>

namespace gneiss {

/// Reads edge buckets through an engine, past the page cache where the engine can, and decodes them to global ids.
///
/// Memory: the largest block, see `bytes_needed`. Thread-safety: one thread loads; `statistics` from any.
/// Errors: io_error; errc::corrupt with path and offset.
class bucket_reader {
public:
    /// Precondition: `store` outlives this.
    bucket_reader(const bucket_store& store, engine_factory engines) : store_(store), engines_(std::move(engines)) {}

    [[nodiscard]] static std::uint64_t bytes_needed(const bucket_store& store) {
        return store.largest_block(edge_direction::out) + 2 * page_alignment;
    }

    /// Fills `to` [extent(bucket).edges] with the bucket's edges in stored order. One read.
    void load(edge_bucket bucket, std::span<edge> to) {
        if (!queue_) open();
        const byte_range range = store_.extent(bucket).range(edge_direction::out);
        const std::uint64_t offset = store_.data_offset(edge_direction::out) + range.offset;
        const auto bytes = queue_->read_unaligned(*file_, offset, static_cast<std::size_t>(range.length), buffer_.bytes());
        queue_->drain();
        {
            const std::scoped_lock lock(mutex_);
            statistics_ = queue_->stats();
        }
        const edge_block block = store_.parse_and_verify(bytes, bucket, edge_direction::out);
        decode(block, static_cast<node_id>(store_.rows().begin(bucket.first)),
            static_cast<node_id>(store_.rows().begin(bucket.second)), to);
    }

    /// This as where an `edge_buffer` takes its edges from. Precondition: this outlives it.
    [[nodiscard]] edge_loader source() {
        return {.size = [this](edge_bucket b) { return static_cast<edge_index>(store_.extent(b).edges); },
            .load = [this](edge_bucket b, std::span<edge> to) { load(b, to); },
            .rows = store_.rows()};
    }

    [[nodiscard]] io_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    void open() {
        engine_ = std::make_unique<any_engine>(engines_());
        file_ = std::make_unique<file>(*engine_, store_.path(edge_direction::out), open_options{.direct = true});
        queue_ = std::make_unique<io_queue>(*engine_);
        buffer_ = aligned_buffer<std::byte>(static_cast<std::size_t>(bytes_needed(store_)));
    }

    const bucket_store& store_;
    engine_factory engines_;
    std::unique_ptr<any_engine> engine_;
    std::unique_ptr<file> file_;
    std::unique_ptr<io_queue> queue_;
    aligned_buffer<std::byte> buffer_;
    mutable std::mutex mutex_;
    io_stats statistics_;
};

} // namespace gneiss
