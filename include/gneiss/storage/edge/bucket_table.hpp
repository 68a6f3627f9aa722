// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>

#include <gneiss/core/error.hpp>
#include <gneiss/core/row_layout.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/graph/edge_buckets.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Alignment of the blocks of buckets [bytes], so that they can be read directly.
inline constexpr std::uint64_t bucket_alignment = 512;

/// Row of edges.table.npy for bucket (i, j), at i·p + j. Six 64-bit words on disk.
struct bucket_row {
    std::uint64_t edges = 0;      ///< number of edges
    std::uint64_t out_nodes = 0;  ///< sources with edges
    std::uint64_t out_offset = 0; ///< outgoing block in the data of edges.out.npy [bytes]
    std::uint64_t in_nodes = 0;   ///< destinations with edges
    std::uint64_t in_offset = 0;  ///< incoming block in the data of edges.in.npy [bytes]
    std::uint64_t reserved = 0;   ///< 0

    /// Returns the nodes with edges in a block.
    [[nodiscard]] constexpr std::uint64_t nodes(edge_direction d) const noexcept {
        return d == edge_direction::out ? out_nodes : in_nodes;
    }
    /// Returns the place of a block in its file.
    [[nodiscard]] constexpr std::uint64_t offset(edge_direction d) const noexcept {
        return d == edge_direction::out ? out_offset : in_offset;
    }

    friend bool operator==(const bucket_row&, const bucket_row&) = default;
};
static_assert(sizeof(bucket_row) == 48);

/// Layout shared by all buckets of a dataset.
struct bucket_layout {
    row_partitioning rows{};     ///< partitions of the nodes
    std::uint64_t relations = 0; ///< upper bound of relation ids, exclusive; with 0 or 1 none is stored

    /// True if edges have relations.
    [[nodiscard]] bool has_relations() const noexcept { return relations > 1; }
    /// Returns the number of buckets.
    [[nodiscard]] std::uint64_t buckets() const noexcept { return std::uint64_t{rows.partitions} * rows.partitions; }
    /// Returns the row of a bucket in the table.
    [[nodiscard]] std::uint64_t index(edge_bucket b) const noexcept {
        return std::uint64_t{b.first} * rows.partitions + b.second;
    }

    /// Returns the shape of a block, to check it against.
    [[nodiscard]] edge_block_shape shape(
        edge_bucket bucket, const bucket_row& row, edge_direction direction) const noexcept {
        const std::uint64_t sources = rows.size(bucket.first), destinations = rows.size(bucket.second);
        const bool out = direction == edge_direction::out;
        return {direction, row.edges, row.nodes(direction), has_relations(), out ? sources : destinations,
            out ? destinations : sources, relations};
    }
    /// Returns the place of a block, including padding.
    [[nodiscard]] byte_range range(edge_bucket bucket, const bucket_row& row, edge_direction direction) const noexcept {
        return {row.offset(direction), round_up(4 * shape(bucket, row, direction).words(), bucket_alignment)};
    }
};

/// Throws errc::unsupported unless buckets of these rows can be stored: 32-bit ids, and at most 16384 partitions (the
/// table has p² rows).
inline void check_bucket_rows(const row_partitioning& rows) {
    if (rows.partitions == 0 || rows.partitions > 16384)
        throw error(
            errc::unsupported, "edge buckets need 1 to 16384 partitions, not " + std::to_string(rows.partitions));
    if (rows.nodes + rows.partitions > std::uint64_t{1} << 32 || rows.nodes >> 32 != 0)
        throw error(errc::unsupported, std::to_string(rows.nodes) + " nodes need more than 32-bit ids");
}

/// Throws errc::out_of_range unless both partitions of a bucket exist. O(1).
inline void check_bucket(edge_bucket bucket, std::uint32_t partitions) {
    if (bucket.first >= partitions || bucket.second >= partitions)
        throw error(errc::out_of_range,
            "bucket (" + std::to_string(bucket.first) + ", " + std::to_string(bucket.second) + ") of " +
                std::to_string(partitions) + " partitions");
}

/// Data bytes of the two block files.
struct bucket_bytes {
    std::uint64_t out = 0, in = 0; ///< data bytes of each file
};
/// Checks a table read from disk: blocks in order and without gaps, counts that fit their partitions. Throws
/// errc::corrupt, naming `path` and the row. Returns the data bytes that the two files must have. O(p²).
[[nodiscard]] inline bucket_bytes check_bucket_table(
    const bucket_layout& layout, std::span<const bucket_row> table, const std::filesystem::path& path) {
    check_bucket_rows(layout.rows);
    if (table.size() != layout.buckets())
        throw error(errc::corrupt,
            "has " + std::to_string(table.size()) + " rows, " + std::to_string(layout.buckets()) +
                " buckets need one each",
            {.path = path});
    bucket_bytes end;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const edge_bucket bucket{static_cast<partition_id>(i / layout.rows.partitions),
            static_cast<partition_id>(i % layout.rows.partitions)};
        const bucket_row& row = table[i];
        const auto wrong = [&](const char* what) {
            return error(errc::corrupt,
                std::string(what) + " of bucket (" + std::to_string(bucket.first) + ", " +
                    std::to_string(bucket.second) + ")",
                {.path = path,
                    .offset = i * sizeof(bucket_row),
                    .length = sizeof(bucket_row),
                    .field = "row " + std::to_string(i)});
        };
        if (row.edges > std::numeric_limits<std::uint32_t>::max()) throw wrong("impossible number of edges");
        const auto possible = [&](std::uint64_t nodes, partition_id p) {
            return nodes <= row.edges && nodes <= layout.rows.size(p) && (nodes == 0) == (row.edges == 0);
        };
        if (!possible(row.out_nodes, bucket.first) || !possible(row.in_nodes, bucket.second))
            throw wrong("impossible number of nodes");
        if (row.out_offset != end.out || row.in_offset != end.in) throw wrong("misplaced block");
        if (row.reserved != 0) throw wrong("reserved word is not 0");
        end.out += layout.range(bucket, row, edge_direction::out).length; // below 2³⁸ each, and fewer than 2²⁸ of them
        end.in += layout.range(bucket, row, edge_direction::in).length;
    }
    return end;
}

} // namespace gneiss
