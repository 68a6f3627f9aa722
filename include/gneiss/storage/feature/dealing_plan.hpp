// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/feature/extent_file.hpp>
#include <gneiss/storage/feature/gather_cost.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/storage/io/calibrate.hpp>

namespace gneiss {

/// The way in which the rows of coming batches are read.
enum class gather_way : std::uint8_t {
    random,   ///< each batch reads its rows where they are
    scan,     ///< one pass over the rows deals them out to the batches, each of which then reads one extent
    automatic ///< the faster one, by bytes and requests over the rates of the device
};

/// Costs of both ways for some batches, and the way that is taken.
struct gather_choice {
    gather_cost random{};                        ///< requests and bytes, extrapolated from up to 16 of the batches
    gather_cost scan{};                          ///< of the pass, and of writing and reading the extents
    double random_seconds = 0, scan_seconds = 0; ///< on the device of the options
    std::uint64_t dealt_rows = 0;                ///< rows in extents
    std::uint64_t dealt_bytes = 0;               ///< bytes written to extents
    bool scanned = false;                        ///< true if the rows are dealt out
    std::string obstacle{}; ///< reason why the rows cannot be dealt out, or why that was given up; empty: none
};

/// Rows that the next batches gather, known in advance.
struct coming_rows {
    std::uint64_t batches = 0; ///< number of batches
    /// Calls its argument with each batch from 0 on, in order, and the distinct rows that it gathers. Called several
    /// times, with the same result.
    std::function<void(const std::function<void(std::size_t, std::span<const node_id>)>&)> visit{};
};

/// Division of the memory for dealing rows out.
struct dealing_memory {
    std::uint64_t bytes = 0;   ///< in all
    std::size_t row_bytes = 0; ///< size of a row

    /// Returns the memory of the pieces of extents: half.
    [[nodiscard]] std::uint64_t pool() const noexcept { return bytes / 2 / page_alignment * page_alignment; }
    /// Returns the memory of the rows of two chunks, or for reading a group of batches: an eighth.
    [[nodiscard]] std::uint64_t spare() const noexcept { return bytes / 8 / page_alignment * page_alignment; }
    /// Returns the memory of sorting the requests: a quarter.
    [[nodiscard]] std::uint64_t sort() const noexcept { return bytes / 4; }
    /// Returns the rows of a chunk. The ids of two, twice as many requests, and the order of a gather are in another
    /// eighth.
    [[nodiscard]] std::uint64_t chunk_rows() const noexcept {
        constexpr std::uint64_t lists = 2 * (sizeof(node_id) + 2 * sizeof(std::uint64_t)) + 16;
        return std::min<std::uint64_t>(spare() / (2 * row_bytes), bytes / 8 / lists);
    }

    /// Returns the widest piece for `record` bytes of which the pool holds one for each of `fan_out` extents and an
    /// eighth more in flight; 0: none.
    [[nodiscard]] std::size_t piece(std::uint64_t fan_out, std::size_t record) const noexcept {
        const std::uint64_t least = round_up(record, page_alignment);
        const std::uint64_t each =
            pool() / (fan_out + std::max<std::uint64_t>(fan_out / 8, 2)) / page_alignment * page_alignment;
        if (each < least || chunk_rows() == 0) return 0;
        const std::uint64_t widest =
            std::clamp<std::uint64_t>(each, least, std::max<std::uint64_t>(least, std::uint64_t{1} << 20));
        return round_up(
            static_cast<std::size_t>(widest) / record * record, page_alignment); // whole records, little padding
    }
};

/// Requested rows of coming batches as extents of a file, one per batch, or one per group of batches from which those
/// of the batches are made one group at a time.
class dealing_plan {
public:
    /// Bytes in a group's extent that give the batch of a row.
    static constexpr std::size_t tag_bytes = sizeof(std::uint32_t);

    dealing_plan() = default;
    /// Groups of about √n batches, if one buffer per batch would be smaller than `least_piece`. Throws
    /// errc::over_budget if the memory has no room for a row per group.
    /// \param counts   number of rows of each batch
    dealing_plan(std::vector<std::uint64_t> counts, const dealing_memory& memory, std::size_t least_piece)
        : counts_(std::move(counts)),
          row_bytes_(memory.row_bytes) {
        const std::uint64_t batches = counts_.size();
        const auto root = static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(batches))));
        const std::size_t one = memory.piece(batches, row_bytes_), two = memory.piece(root, row_bytes_ + tag_bytes);
        if (one == 0 && two == 0)
            throw error(errc::over_budget,
                "dealing rows of " + std::to_string(row_bytes_) + " bytes out to " + std::to_string(batches) +
                    " batches needs more memory than " + format_bytes(memory.bytes));
        if (one < least_piece && two > one) per_group_ = root;
        piece_bytes_ = two_levels() ? two : one;
    }

    [[nodiscard]] std::uint64_t batches() const noexcept { return counts_.size(); } ///< number of batches
    /// Returns the number of rows of a batch.
    [[nodiscard]] std::uint64_t rows(std::uint64_t batch) const noexcept {
        return counts_[static_cast<std::size_t>(batch)];
    }
    /// True if rows are dealt out to groups of batches first.
    [[nodiscard]] bool two_levels() const noexcept { return per_group_ > 1; }
    /// Returns the number of groups; without groups, of batches.
    [[nodiscard]] std::uint64_t groups() const noexcept { return ceil_div(batches(), per_group_); }
    /// Returns the group of a batch; without groups, the batch.
    [[nodiscard]] std::uint64_t group_of(std::uint64_t batch) const noexcept { return batch / per_group_; }
    /// Returns the first batch of a group.
    [[nodiscard]] std::uint64_t first_of(std::uint64_t group) const noexcept { return group * per_group_; }

    /// Returns the extents that the pass fills.
    [[nodiscard]] extent_sizes top() const {
        if (!two_levels()) return {row_bytes_, piece_bytes_, counts_};
        extent_sizes sizes{
            row_bytes_ + tag_bytes, piece_bytes_, std::vector<std::uint64_t>(static_cast<std::size_t>(groups()))};
        for (std::uint64_t i = 0; i < batches(); ++i) sizes.records[static_cast<std::size_t>(group_of(i))] += rows(i);
        return sizes;
    }
    /// Returns the extents of the batches of a group.
    [[nodiscard]] extent_sizes leaf(std::uint64_t group) const {
        const auto at = counts_.begin() + static_cast<std::ptrdiff_t>(first_of(group));
        return {row_bytes_, piece_bytes_,
            {at, at + static_cast<std::ptrdiff_t>(std::min(per_group_, batches() - first_of(group)))}};
    }

    /// Returns the requests and bytes of writing all extents, or of reading them.
    [[nodiscard]] gather_cost written() const {
        gather_cost all = of(top());
        for (std::uint64_t g = 0; two_levels() && g < groups(); ++g) all += of(leaf(g));
        return all;
    }
    /// Returns the most bytes that the extents take on disk at once.
    [[nodiscard]] std::uint64_t disk_bytes() const {
        return top().bytes() + most_of_groups([](const extent_sizes& of_group) { return of_group.bytes(); });
    }
    /// Returns the memory of the extents' places and checksums, those of the largest group among them.
    [[nodiscard]] memory_need need() const {
        const std::uint64_t pieces =
            of(top()).requests + most_of_groups([](const extent_sizes& of_group) { return of(of_group).requests; });
        return {"places of dealt rows", 8 * pieces + 48 * batches()};
    }

private:
    /// Returns the largest value of the extents of a group; 0 without groups.
    template <class Value>
    [[nodiscard]] std::uint64_t most_of_groups(Value value) const {
        std::uint64_t most = 0;
        for (std::uint64_t g = 0; two_levels() && g < groups(); ++g) most = std::max(most, value(leaf(g)));
        return most;
    }
    [[nodiscard]] static gather_cost of(const extent_sizes& sizes) {
        gather_cost sum{.requests = 0, .bytes = sizes.bytes()};
        for (std::size_t i = 0; i < sizes.records.size(); ++i) sum.requests += sizes.pieces(i);
        return sum;
    }

    std::vector<std::uint64_t> counts_;
    std::size_t row_bytes_ = 0, piece_bytes_ = 0;
    std::uint64_t per_group_ = 1; // batches; 1: one level
};

/// Sum over the rows of a batch that does not depend on their order: equal for equal sets, and hardly ever for others.
[[nodiscard]] inline std::uint64_t digest_of_rows(std::span<const node_id> ids) noexcept {
    std::uint64_t sum = 0;
    for (const node_id id : ids) sum += mix64(id);
    return sum;
}

/// Counts of coming rows, and the cost of reading them.
struct coming_profile {
    std::vector<std::uint64_t> counts{}, digests{}; ///< [batches] rows; `digest_of_rows`
    std::uint64_t rows = 0;                         ///< sum of the counts
    gather_cost random{}; ///< own rows in a gather, then each batch in one; extrapolated from up to 16 batches
    gather_cost pass{};   ///< all rows, each once, in ascending order
};

/// Counts coming rows and costs. O(rows / 64 + accesses), with a bitmap of the rows. Throws errc::out_of_range for a
/// row beyond `rows`.
/// \param own  rows that are gathered before the first batch
[[nodiscard]] inline coming_profile profile_coming(const coming_rows& coming, std::span<const node_id> own,
    std::uint64_t rows, std::size_t row_bytes, const gather_options& reads) {
    constexpr std::uint64_t most_batches = 16;
    coming_profile result;
    result.counts.assign(static_cast<std::size_t>(coming.batches), 0);
    result.digests = result.counts;
    bitmap asked(static_cast<std::size_t>(rows));
    const auto cost_of_asked = [&] {
        request_counter counter(row_bytes, reads);
        asked.for_each([&](std::size_t row) { counter.add(row); });
        return counter.cost();
    };
    for (const node_id id : own) asked.set(id);
    result.random = cost_of_asked();
    const std::uint64_t stride = ceil_div(std::max<std::uint64_t>(coming.batches, 1), most_batches);
    std::vector<node_id> sorted;
    gather_cost profiled;
    std::uint64_t profiled_rows = 0;
    coming.visit([&](std::size_t batch, std::span<const node_id> ids) {
        check_rows(ids, rows);
        result.counts[batch] = ids.size();
        result.digests[batch] = digest_of_rows(ids);
        result.rows += ids.size();
        for (const node_id id : ids) asked.set(id);
        if (batch % stride != 0) return;
        sorted.assign(ids.begin(), ids.end());
        std::ranges::sort(sorted);
        request_counter counter(row_bytes, reads);
        for (const node_id id : sorted) counter.add(id);
        profiled += counter.cost();
        profiled_rows += ids.size();
    });
    const double factor =
        profiled_rows == 0 ? 0 : static_cast<double>(result.rows) / static_cast<double>(profiled_rows);
    result.random += {static_cast<std::uint64_t>(factor * static_cast<double>(profiled.requests)),
        static_cast<std::uint64_t>(factor * static_cast<double>(profiled.bytes))};
    result.pass = cost_of_asked();
    return result;
}

} // namespace gneiss
