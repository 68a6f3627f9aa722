// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/cache/concepts.hpp>
#include <gneiss/cache/detail/id_table.hpp>
#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/concepts.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/types.hpp>

namespace gneiss::detail {

/// Number of an access: a use of a row by a batch. Accesses are numbered from 0 by batch, then by position.
using access_number = std::uint32_t;
inline constexpr access_number no_access = std::numeric_limits<access_number>::max();

/// Last value of each id, like `id_table`, in an array over all ids. Memory: 4 bytes per node.
class direct_table {
public:
    explicit direct_table(std::uint64_t nodes)
        : values_(huge_page_vector<access_number>(static_cast<std::size_t>(nodes))) {
        std::ranges::fill(values_, no_access);
    }

    [[nodiscard]] static std::size_t size() noexcept { return 0; }
    static void reserve(std::size_t) noexcept {}
    void find(std::span<const node_id> ids, std::span<access_number> to) const {
        check(ids);
        for (std::size_t i = 0; i < ids.size(); ++i) {
            ask(ids, i);
            to[i] = values_[ids[i]];
        }
    }
    template <executor E>
    void exchange(
        std::span<const node_id> ids, access_number first, std::span<access_number> previous, const E& executor) {
        parallel_for(executor, ids.size(), 8192, [&](std::size_t begin, std::size_t end) {
            check(ids.subspan(begin, end - begin));
            for (std::size_t i = begin; i < end; ++i) { // distinct ids: tasks write to different elements
                ask(ids, i);
                previous[i] = std::exchange(values_[ids[i]], first + static_cast<access_number>(i));
            }
        });
    }

private:
    void check(std::span<const node_id> ids) const {
        node_id largest = 0;
        for (const node_id id : ids) largest = std::max(largest, id);
        if (!ids.empty() && largest >= values_.size())
            throw error(errc::out_of_range,
                "row " + std::to_string(largest) + " of a trace over " + std::to_string(values_.size()) + " rows");
    }
    void ask(std::span<const node_id> ids, std::size_t i) const noexcept {
        constexpr std::size_t ahead = 24;
        if (i + ahead < ids.size()) prefetch(values_.data() + ids[i + ahead]);
    }

    std::vector<access_number> values_;
};

/// Next access to the same row, for each access of a trace. Memory: 4 bytes per access.
class next_uses {
public:
    next_uses() = default; // of no batch
    /// Computes the start of each batch. Throws errc::out_of_range for 2³² accesses or more.
    template <access_trace Trace>
    explicit next_uses(Trace& trace) {
        starts_.reserve(trace.batches() + 1);
        std::uint64_t total = 0;
        for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
            const std::uint64_t size = trace.size(batch);
            if (size >= no_access - total) throw error(errc::out_of_range, "a trace has 2^32 accesses or more");
            total += size;
            starts_.push_back(static_cast<access_number>(total));
        }
        next_ = aligned_buffer<access_number>(total);
        advise_huge_pages(next_.data(), next_.size_bytes());
        // Pieces of accesses, about eight per batch: most lie within a single batch.
        while (total >> shift_ > 8 * std::uint64_t{trace.batches()}) ++shift_;
        for (std::uint64_t piece = 0; piece <= total >> shift_; ++piece)
            first_batch_.push_back(search(static_cast<access_number>(piece << shift_), 0, batches()));
        first_batch_.push_back(static_cast<std::uint32_t>(batches()));
    }

    /// Makes one backward pass over the trace. Afterwards `last` maps each row to its first access.
    template <access_trace Trace, class Table, executor E>
    void link(Trace& trace, Table& last, const E& executor) {
        std::vector<node_id> room;
        sums_.resize(batches());
        for (std::size_t batch = batches(); batch-- > 0;) {
            const std::span<const node_id> ids = trace.read(batch, room);
            if (ids.size() != size(batch))
                throw error(errc::corrupt, "a trace does not have the rows that it declares");
            sums_[batch] = sum_of(ids);
            last.reserve(last.size() + ids.size());
            last.exchange(ids, start(batch), std::span(next_.data() + start(batch), ids.size()), executor);
        }
    }

    [[nodiscard]] std::size_t batches() const noexcept { return starts_.size() - 1; }
    [[nodiscard]] access_number start(std::size_t batch) const noexcept { return starts_[batch]; }
    [[nodiscard]] std::size_t size(std::size_t batch) const noexcept { return starts_[batch + 1] - starts_[batch]; }
    /// True if `ids` are those of the batch, in order, by a checksum. `link` was called.
    [[nodiscard]] bool matches(std::size_t batch, std::span<const node_id> ids) const noexcept {
        return ids.size() == size(batch) && sum_of(ids) == sums_[batch];
    }
    /// Next access to the same row, or `no_access`.
    [[nodiscard]] access_number after(access_number access) const noexcept { return next_[access]; }
    /// Batch of an access; batches() for `no_access`. O(1), or O(log batches) where batches are far smaller than most.
    [[nodiscard]] std::uint32_t batch_of(access_number access) const noexcept {
        if (access == no_access) return static_cast<std::uint32_t>(batches());
        const std::size_t piece = access >> shift_;
        const std::uint32_t first = first_batch_[piece], last = first_batch_[piece + 1];
        return first == last ? first : search(access, first, last);
    }

private:
    /// Last non-empty batch of [low, high] that begins at or before `access`.
    [[nodiscard]] std::uint32_t search(access_number access, std::size_t low, std::size_t high) const noexcept {
        const auto first = starts_.begin() + static_cast<std::ptrdiff_t>(low) + 1;
        const auto end = starts_.begin() + static_cast<std::ptrdiff_t>(high) + 1;
        return static_cast<std::uint32_t>(std::upper_bound(first, end, access) - starts_.begin() - 1);
    }

    [[nodiscard]] static std::uint64_t sum_of(std::span<const node_id> ids) noexcept {
        return checksum(std::as_bytes(ids));
    }

    std::vector<access_number> starts_{0}; // [batches + 1]
    std::vector<std::uint64_t> sums_;      // [batches] of the ids
    unsigned shift_ = 0;
    std::vector<std::uint32_t> first_batch_; // batch of the first access of each piece of 2^shift accesses
    aligned_buffer<access_number> next_;
};

} // namespace gneiss::detail
