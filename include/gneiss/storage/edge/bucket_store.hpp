// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/graph/coo.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/storage/edge/bucket_table.hpp>
#include <gneiss/storage/io/checked_file.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Size of a bucket and place of its blocks.
struct bucket_extent {
    std::uint64_t edges = 0; ///< number of edges
    byte_range out{}, in{};  ///< in the data of each file; whole multiples of 512 bytes

    /// Returns the place of a block.
    [[nodiscard]] const byte_range& range(edge_direction d) const noexcept {
        return d == edge_direction::out ? out : in;
    }
};

/// A block with its memory.
struct loaded_block {
    aligned_buffer<std::byte> bytes; ///< memory of the block
    edge_block block;                ///< view of the edges
};

/// The edge buckets of a dataset on disk, read block by block; each block is verified and checked before use.
///
///     const bucket_store store = my_dataset.buckets();
///     store.for_each_edge([&](std::span<const edge> edges) { … });
///
/// Two ways to read: `read` (one thread, through the page cache), or an engine that reads `extent(b).range(d)` of the
/// file `path(d)` at `data_offset(d) + offset` and passes the bytes to `parse_and_verify`. Immutable; all calls are
/// thread-safe.
/// Memory: the table, 48·p² bytes, and 16 bytes per checksum block. Errors: `io_error`; errc::corrupt with path and
/// offset.
///
/// From examples/06_edge_buckets.cpp:
/// \snippet 06_edge_buckets.cpp read
class bucket_store {
public:
    /// One block file: its path and checksums.
    struct block_file {
        std::filesystem::path path; ///< path of the file
        checksum_table checksums;   ///< checksums of its blocks
    };

    /// Opens and checks headers, sizes and the table, but not the blocks.
    /// \param table_path  for messages
    bucket_store(const bucket_layout& layout, std::vector<bucket_row> table, block_file out, block_file in,
        const std::filesystem::path& table_path)
        : layout_(layout),
          table_(std::move(table)),
          sides_{open(std::move(out)), open(std::move(in))} {
        const bucket_bytes expected = check_bucket_table(layout_, table_, table_path);
        for (const bucket_row& row : table_) edges_ += row.edges;
        for (const auto& [side, bytes] : {std::pair(&sides_[0], expected.out), std::pair(&sides_[1], expected.in)})
            if (side->checksums.data_bytes() != bytes)
                throw error(errc::corrupt,
                    "has " + std::to_string(side->checksums.data_bytes()) + " bytes of blocks, the table needs " +
                        std::to_string(bytes),
                    {.path = side->file.path()});
    }

    /// Returns the layout of all buckets.
    [[nodiscard]] const bucket_layout& layout() const noexcept { return layout_; }
    [[nodiscard]] const row_partitioning& rows() const noexcept { return layout_.rows; }
    [[nodiscard]] std::uint64_t edges() const noexcept { return edges_; }
    /// Returns the table of buckets, row by row.
    [[nodiscard]] std::span<const bucket_row> table() const noexcept { return table_; }
    /// Returns the path of a block file.
    [[nodiscard]] const std::filesystem::path& path(edge_direction d) const noexcept { return side(d).file.path(); }
    /// Offset of the data in the file of a direction [bytes]; a multiple of 4096.
    [[nodiscard]] std::uint64_t data_offset(edge_direction d) const noexcept { return side(d).checksums.data_offset(); }

    /// Throws errc::out_of_range unless both partitions of a bucket exist. O(1).
    void check(edge_bucket bucket) const { check_bucket(bucket, layout_.rows.partitions); }
    /// Returns the size and place of a bucket. O(1). Errors as `check`, as of all calls below.
    [[nodiscard]] bucket_extent extent(edge_bucket bucket) const {
        const bucket_row& r = row(bucket);
        return {r.edges, layout_.range(bucket, r, edge_direction::out), layout_.range(bucket, r, edge_direction::in)};
    }
    /// Returns the size of the largest block of a direction [bytes]. O(p²).
    [[nodiscard]] std::uint64_t largest_block(edge_direction d) const {
        std::uint64_t most = 0;
        for_each_bucket([&](edge_bucket b) { most = std::max(most, extent(b).range(d).length); });
        return most;
    }

    /// Returns the size of all blocks of a direction [bytes]. O(p²).
    [[nodiscard]] std::uint64_t bytes(edge_direction d) const {
        std::uint64_t sum = 0;
        for_each_bucket([&](edge_bucket b) { sum += extent(b).range(d).length; });
        return sum;
    }

    /// Parses the block in `bytes`, those of `extent(bucket).range(d)`; the result is a view of them.
    ///
    /// Two passes over the bytes, no allocation: checksums, then ids, order and counts. Precondition, checked: whole
    /// range, 4-byte aligned.
    [[nodiscard]] edge_block parse_and_verify(
        std::span<const std::byte> bytes, edge_bucket bucket, edge_direction d) const {
        const byte_range range = extent(bucket).range(d);
        if (bytes.size() != range.length ||
            reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint32_t) != 0)
            throw error(errc::invalid_argument, "not the bytes of the bucket's block", {.path = path(d)});
        side(d).checksums.verify(path(d), range.offset, bytes);
        const edge_block_shape shape = layout_.shape(bucket, row(bucket), d);
        const edge_block block =
            cut_block({reinterpret_cast<const std::uint32_t*>(bytes.data()), bytes.size() / 4}, shape);
        if (const std::string_view fault = diagnose_block(block, shape); !fault.empty())
            throw error(errc::corrupt,
                "bucket (" + std::to_string(bucket.first) + ", " + std::to_string(bucket.second) +
                    "): " + std::string(fault),
                {.path = path(d), .offset = data_offset(d) + range.offset, .length = range.length});
        return block;
    }

    /// Reads one block. One allocation, one system call.
    [[nodiscard]] loaded_block read(edge_bucket bucket, edge_direction d) const {
        const byte_range range = extent(bucket).range(d);
        loaded_block loaded{aligned_buffer<std::byte>(static_cast<std::size_t>(range.length)), {}};
        side(d).file.read_at(data_offset(d) + range.offset, loaded.bytes.span());
        loaded.block = parse_and_verify(loaded.bytes.span(), bucket, d);
        return loaded;
    }

    /// Reads some bytes of a direction's data, for blocks larger than memory. Verifies checksums, for which it reads
    /// the checksum blocks at both ends whole; the caller checks the contents.
    void read_bytes(edge_direction d, std::uint64_t offset, std::span<std::byte> to) const {
        side(d).checksums.read(side(d).file, offset, to);
    }
    /// Returns a hash of the edges of a direction as stored. O(checksum blocks), without I/O.
    [[nodiscard]] std::uint64_t fingerprint(edge_direction d) const {
        return checksum(std::as_bytes(side(d).checksums.blocks()), edges_);
    }

    /// Calls `visit(edge_bucket)` for every bucket, row by row.
    template <std::invocable<edge_bucket> Visit>
    void for_each_bucket(Visit&& visit) const {
        for (partition_id i = 0; i < layout_.rows.partitions; ++i)
            for (partition_id j = 0; j < layout_.rows.partitions; ++j) visit(edge_bucket{i, j});
    }

    /// Streams all edges with global ids in stored order, by bucket, source, destination, relation: one call per bucket
    /// with edges. Memory: the block and the edges of the largest bucket.
    template <std::invocable<std::span<const edge>> Sink>
    void for_each_edge(Sink&& sink) const {
        std::vector<edge> edges;
        for_each_bucket([&](edge_bucket bucket) {
            const loaded_block loaded = read(bucket, edge_direction::out);
            edges.resize(loaded.block.edges());
            decode(loaded.block, static_cast<node_id>(rows().begin(bucket.first)),
                static_cast<node_id>(rows().begin(bucket.second)), std::span(edges));
            if (!edges.empty()) sink(std::span<const edge>(edges));
        });
    }

    /// Reads and checks everything: every block, and that both directions hold the same edges. Throws at the first
    /// fault.
    void verify() const {
        std::vector<edge> by_source, by_destination;
        for_each_bucket([&](edge_bucket bucket) {
            const auto i = static_cast<node_id>(rows().begin(bucket.first)),
                       j = static_cast<node_id>(rows().begin(bucket.second));
            const loaded_block out = read(bucket, edge_direction::out), in = read(bucket, edge_direction::in);
            by_source.resize(out.block.edges());
            by_destination.assign(in.block.edges(), edge{i, 0, j});
            decode(out.block, i, j, std::span(by_source));
            decode_incoming(in.block, i, j, std::span(by_destination));
            if (by_source != by_destination)
                throw error(errc::corrupt,
                    "incoming and outgoing edges of bucket (" + std::to_string(bucket.first) + ", " +
                        std::to_string(bucket.second) + ") differ",
                    {.path = path(edge_direction::in)});
        });
    }

private:
    struct open_side {
        plain_file file;
        checksum_table checksums;
    };
    [[nodiscard]] static open_side open(block_file from) {
        open_side side{plain_file::open(from.path), std::move(from.checksums)};
        side.checksums.verify_header(side.file);
        return side;
    }
    [[nodiscard]] const open_side& side(edge_direction d) const noexcept {
        return sides_[d == edge_direction::out ? 0 : 1];
    }
    [[nodiscard]] const bucket_row& row(edge_bucket bucket) const {
        check(bucket);
        return table_[static_cast<std::size_t>(layout_.index(bucket))];
    }

    bucket_layout layout_;
    std::vector<bucket_row> table_;
    open_side sides_[2];
    std::uint64_t edges_ = 0;
};

} // namespace gneiss
