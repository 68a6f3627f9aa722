// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/object_pool.hpp>
#include <gneiss/eval/concepts.hpp>
#include <gneiss/storage/embedding/concepts.hpp>

// Tiled scoring of a block of queries against all rows of a table: rows are packed a superblock at a time, and tiles of
// scores are consumed while they are in a core's cache.
namespace gneiss::detail {

/// Tile sizes. A tile of scores (tile_queries × tile_candidates floats, 256 KiB) and its queries fit in L2.
struct tile_shape {
    static constexpr std::size_t queries = 128;
    static constexpr std::size_t candidates = 512;
    static constexpr std::size_t group_tiles = 2; ///< tiles per task
    static constexpr std::size_t groups = 4;      ///< tasks that share a tile's queries; each has its own results
    static constexpr std::size_t group_rows = group_tiles * candidates;
    static constexpr std::size_t superblock_rows = groups * group_rows;
};

/// Requested row and its slot in the result.
struct row_request {
    node_id node{};
    std::uint32_t slot = 0;

    friend constexpr auto operator<=>(const row_request&, const row_request&) = default;
    friend constexpr bool operator==(const row_request&, const row_request&) = default;
};

/// Copies rows[wanted.node] to out[wanted.slot], in one pass over the table. Sorts `wanted`.
template <embedding_stream Rows, executor E>
void gather_rows(Rows& rows, std::vector<row_request>& wanted, matrix_view<float> out, const E& executor) {
    parallel_sort(executor, wanted);
    auto next = wanted.cbegin();
    rows.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
        for (; next != wanted.cend() && next->node < first + block.rows(); ++next)
            std::ranges::copy(block[static_cast<std::size_t>(next->node - first)], out[next->slot].begin());
    });
    GNEISS_ASSERT(next == wanted.cend());
}

/// Pool of equally sized buffers for tasks: one per concurrent task. Thread-safe.
class scratch_pool {
public:
    explicit scratch_pool(std::size_t floats) : floats_(floats) {}

    /// Calls `use` with a buffer exclusive to the task.
    template <class Use>
    void with(Use&& use) {
        buffers_.with(
            [&] { return aligned_buffer<float>(floats_); }, [&](aligned_buffer<float>& mine) { use(mine.span()); });
    }

private:
    std::size_t floats_;
    object_pool<aligned_buffer<float>> buffers_;
};

/// Floats of scratch for one task of `for_each_tile` or `score_pairs`.
template <score_kernel K>
[[nodiscard]] std::size_t tile_scratch_floats(const K& kernel, std::size_t dim) {
    return tile_shape::queries * tile_shape::candidates + kernel.scratch_floats(tile_shape::queries, dim) +
        kernel.packed_floats(tile_shape::candidates, dim);
}

/// Floats of a packed superblock.
template <score_kernel K>
[[nodiscard]] std::size_t superblock_floats(const K& kernel, std::size_t dim) {
    return tile_shape::superblock_rows / tile_shape::candidates * kernel.packed_floats(tile_shape::candidates, dim);
}

/// Scores all queries [m, dim] against all rows of the table, in one pass.
///
/// Calls body(group, first_query, first_row, scores) for every tile; scores [q, n] are those of queries first_query …
/// and rows first_row …. Calls with the same group and first_query are sequential, by ascending first_row; others may
/// be concurrent.
template <embedding_stream Rows, score_kernel K, executor E, class Body>
void for_each_tile(similarity compare, Rows& rows, matrix_view<const float> queries, const K& kernel, const E& executor,
    scratch_pool& scratch, Body&& body) {
    const std::size_t dim = queries.columns();
    const std::size_t tile_floats = kernel.packed_floats(tile_shape::candidates, dim);
    aligned_buffer<float> packed(superblock_floats(kernel, dim));
    const auto tile_of = [&](std::size_t row) {
        return packed.span().subspan(row / tile_shape::candidates * tile_floats, tile_floats);
    };
    const std::size_t query_tiles = ceil_div(queries.rows(), tile_shape::queries);

    const auto meet = [&](std::uint64_t first_row, matrix_view<const float> some) {
        parallel_for(executor, some.rows(), tile_shape::candidates, [&](std::size_t begin, std::size_t end) {
            kernel.pack(some.middle_rows(begin, end - begin), tile_of(begin));
        });
        executor.run(query_tiles * ceil_div(some.rows(), tile_shape::group_rows), [&](std::size_t task) {
            const std::size_t group = task / query_tiles;
            const std::size_t q = task % query_tiles * tile_shape::queries;
            const auto mine = queries.middle_rows(q, std::min(tile_shape::queries, queries.rows() - q));
            const std::size_t end = std::min(some.rows(), (group + 1) * tile_shape::group_rows);
            scratch.with([&](std::span<float> space) {
                for (std::size_t row = group * tile_shape::group_rows; row < end; row += tile_shape::candidates) {
                    const matrix_view<float> scores(
                        space.data(), mine.rows(), std::min(tile_shape::candidates, end - row));
                    kernel.scores(compare, mine, tile_of(row), scores,
                        space.subspan(tile_shape::queries * tile_shape::candidates));
                    body(group, q, first_row + row, matrix_view<const float>(scores));
                }
            });
        });
    };
    rows.for_each_block([&](std::uint64_t first_row, matrix_view<const float> block) {
        for (std::size_t row = 0; row < block.rows(); row += tile_shape::superblock_rows)
            meet(first_row + row, block.middle_rows(row, std::min(tile_shape::superblock_rows, block.rows() - row)));
    });
}

/// out[i] = score of query i against row i of `candidates`; both [m, dim], m at most 32.
template <score_kernel K>
void score_pairs(similarity compare, matrix_view<const float> queries, matrix_view<const float> candidates,
    const K& kernel, std::span<float> out, std::span<float> scratch) {
    const std::size_t count = queries.rows();
    const matrix_view<float> scores(scratch.data(), count, count);
    const auto packed = scratch.subspan(count * count, kernel.packed_floats(count, queries.columns()));
    kernel.pack(candidates, packed);
    kernel.scores(compare, queries, packed, scores, scratch.subspan(count * count + packed.size()));
    for (std::size_t i = 0; i < count; ++i) out[i] = scores(i, i);
}

/// Numbers of `scores` greater than, equal to, and not comparable with `target`.
struct score_counts {
    std::uint32_t greater = 0, equal = 0, not_a_number = 0;
};

[[nodiscard]] inline score_counts count_scores(std::span<const float> scores, float target) noexcept {
    std::uint32_t greater = 0, equal = 0, less = 0; // three sums that vectorize
    for (const float score : scores) {
        greater += score > target;
        equal += score == target;
        less += score < target;
    }
    return {greater, equal, static_cast<std::uint32_t>(scores.size()) - greater - equal - less};
}

} // namespace gneiss::detail
