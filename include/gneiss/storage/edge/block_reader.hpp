// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/graph/concepts.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/storage/edge/bucket_store.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/io_queue.hpp>

namespace gneiss {

/// A bucket's edges by source or by destination.
struct block_place {
    edge_bucket bucket;                             ///< the bucket
    edge_direction direction = edge_direction::out; ///< by source or by destination
    bool without_self_loops = false;                ///< leaves self loops out

    friend auto operator<=>(const block_place&, const block_place&) = default;
    friend bool operator==(const block_place&, const block_place&) = default;
};

/// Returns the bucket whose block in direction `d` is indexed by partition `own`.
[[nodiscard]] constexpr edge_bucket bucket_of(partition_id own, partition_id other, edge_direction d) noexcept {
    return d == edge_direction::out ? edge_bucket{own, other} : edge_bucket{other, own};
}

/// Returns the block of the lists of partition `own` in direction `d`, of which `side` is a part: among the neighbors
/// in both directions a self loop is an outgoing edge alone.
[[nodiscard]] constexpr block_place block_of(
    partition_id own, partition_id other, edge_direction side, neighbor_direction d) noexcept {
    return {
        bucket_of(own, other, side), side, d == neighbor_direction::both && side == edge_direction::in && own == other};
}

/// Removes the self loops of a block of the edges within a partition, in place. O(edges).
inline void remove_self_loops(loaded_block& of) noexcept {
    edge_block& block = of.block;
    const auto writable = [](std::span<const std::uint32_t> words) {
        return const_cast<std::uint32_t*>(words.data());
    }; // in of.bytes
    std::uint32_t* const arrays[] = {writable(block.neighbors), writable(block.relations), writable(block.edge_ids)};
    std::uint32_t nodes = 0, edges = 0, first = 0;
    for (std::size_t v = 0; v < block.nodes.size(); ++v) {
        const std::uint32_t last = block.starts[v + 1], begin = edges, node = block.nodes[v];
        for (std::uint32_t e = first; e < last; ++e) {
            if (block.neighbors[e] == node) continue;
            for (std::uint32_t* const array : arrays)
                if (array != nullptr) array[edges] = array[e];
            ++edges;
        }
        first = last;
        if (edges == begin) continue;
        writable(block.nodes)[nodes] = node;
        writable(block.starts)[++nodes] = edges;
    }
    const auto shorten = [&](std::span<const std::uint32_t>& words, std::size_t count) {
        if (!words.empty()) words = words.first(count);
    };
    shorten(block.nodes, nodes);
    shorten(block.starts, edges == 0 ? 0 : nodes + std::size_t{1});
    shorten(block.neighbors, edges);
    shorten(block.relations, edges);
    shorten(block.edge_ids, edges);
}

/// Reads edge blocks without decoding, many at once, through an engine, bypassing the page cache if the engine can.
///
/// Cost: one wave of reads per call, one allocation per block. Thread-safety: one thread reads; `statistics` from any.
/// Errors: io_error; errc::corrupt with path and offset.
class block_reader {
public:
    /// The store must outlive this.
    block_reader(const bucket_store& store, engine_factory engines) : store_(store), engines_(std::move(engines)) {}
    block_reader(const bucket_store&&, engine_factory) = delete; // the store must outlive the reader

    /// Returns the memory of a block: its bytes, rounded for direct reads.
    [[nodiscard]] static std::uint64_t memory_of(const bucket_store& store, const block_place& at) {
        return store.extent(at.bucket).range(at.direction).length + 2 * page_alignment;
    }

    /// Reads blocks and returns them, verified, in the given order. Throws errc::invalid_argument while a wave is in
    /// progress, or without engines; errc::out_of_range for a bucket beyond the store.
    [[nodiscard]] std::vector<loaded_block> read(std::span<const block_place> wanted) {
        if (!waves_.empty()) throw error(errc::invalid_argument, "blocks are read while a wave is in progress");
        start(wanted);
        return finish();
    }

    /// Starts a wave of reads in the background. Several may be in progress.
    void start(std::span<const block_place> wanted) {
        or_abandon([&] {
            wave& begun = waves_.emplace_back();
            begun.wanted.assign(wanted.begin(), wanted.end());
            begun.loaded.resize(wanted.size());
            begun.left = wanted.size();
            ++waves_begun_;
            if (wanted.empty()) return;
            if (!queue_) {
                engine_ = std::make_unique<any_engine>(make_engine(engines_));
                queue_ = std::make_unique<io_queue>(*engine_);
            }
            for (std::size_t i = 0; i < wanted.size(); ++i) {
                auto& from = files_[wanted[i].direction == edge_direction::in ? 1 : 0];
                if (!from)
                    from = std::make_unique<file>(
                        *engine_, store_.path(wanted[i].direction), open_options{.direct = true});
                const byte_range range = store_.extent(wanted[i].bucket).range(wanted[i].direction);
                aligned_buffer<std::byte>& to = begun.loaded[i].bytes;
                to = aligned_buffer<std::byte>(static_cast<std::size_t>(memory_of(store_, wanted[i])));
                advise_huge_pages(to.data(), to.size());
                begun.bytes.push_back(
                    queue_->read_unaligned(*from, store_.data_offset(wanted[i].direction) + range.offset,
                        static_cast<std::size_t>(range.length), to.bytes(), waves_begun_));
            }
            queue_->submit();
        });
    }

    /// Returns the blocks of the oldest wave, verified, in the given order. Throws errc::invalid_argument if none is in
    /// progress.
    [[nodiscard]] std::vector<loaded_block> finish() {
        if (waves_.empty()) throw error(errc::invalid_argument, "no wave of blocks is in progress");
        std::vector<loaded_block> loaded;
        or_abandon([&] {
            wave& ended = waves_.front();
            while (ended.left != 0) {
                const std::optional<std::uint64_t> number = queue_->next_done();
                GNEISS_ASSERT(number);
                --waves_[static_cast<std::size_t>(waves_.size() - 1 - (waves_begun_ - *number))].left;
            }
            for (std::size_t i = 0; i < ended.wanted.size(); ++i) {
                ended.loaded[i].block =
                    store_.parse_and_verify(ended.bytes[i], ended.wanted[i].bucket, ended.wanted[i].direction);
                if (ended.wanted[i].without_self_loops) remove_self_loops(ended.loaded[i]);
            }
            loaded = std::move(ended.loaded);
            waves_.pop_front();
        });
        const std::scoped_lock lock(mutex_);
        if (queue_) statistics_ = queue_->stats();
        return loaded;
    }

    /// Drops all waves: waits for their requests, so that another thread may destroy this.
    void abandon() noexcept {
        if (queue_) queue_->abandon();
        waves_.clear();
    }

    [[nodiscard]] io_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    struct wave {
        std::vector<block_place> wanted;
        std::vector<loaded_block> loaded;
        std::vector<std::span<const std::byte>> bytes; // bytes of each block, within its memory
        std::size_t left = 0;                          // blocks that have not arrived
    };

    /// Runs `work`; on an error abandons all waves.
    template <class Work>
    void or_abandon(Work&& work) {
        try {
            work();
        } catch (...) {
            abandon();
            throw;
        }
    }

    const bucket_store& store_;
    engine_factory engines_;
    std::unique_ptr<any_engine> engine_;
    std::unique_ptr<file> files_[2]; // out, in
    std::deque<wave> waves_;         // oldest first
    std::uint64_t waves_begun_ = 0;
    std::unique_ptr<io_queue> queue_; // after the memory that it reads into
    mutable std::mutex mutex_;
    io_stats statistics_;
};

} // namespace gneiss
