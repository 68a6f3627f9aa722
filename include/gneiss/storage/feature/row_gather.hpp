// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/storage/io/detail/radix_sort.hpp>
#include <gneiss/storage/io/io_queue.hpp>

namespace gneiss {

/// Options of `disk_rows`.
struct gather_options {
    /// Most unwanted bytes between two wanted rows that one request reads together. About bandwidth / IOPS of the
    /// device is best (`io_profile::coalesce_bytes`); 0 merges only rows that touch or share a block.
    std::size_t coalesce_bytes = std::size_t{16} << 10;
    std::size_t run_bytes = std::size_t{256} << 10;    ///< largest request; a longer row is a request by itself
    std::size_t staging_bytes = std::size_t{16} << 20; ///< memory that requests read into; at least two blocks
    bool direct = true;                                ///< bypass the page cache if possible
};

/// Rows of a file, read through an engine.
///
///     disk_rows source(engines, rows, {}, executor, budget);   // rows: stored_rows
///     source.gather(ids, gather_target::of(matrix));
///
/// Meaning: the wanted rows are sorted; nearby ones become one request, which begins and ends at multiples of the
/// file's direct alignment, so that aligned rows of 512 bytes stay requests of 512. Requests read into blocks of
/// staging memory in that order, and the engine's depth is kept in flight until the last has begun, without waves to
/// drain. The executor copies a complete block to the target while others are read, so the target holds nothing of a
/// failed request.
/// Cost: O(n log n) for n ids, on one thread below 2¹⁸; 16 bytes per id, and the staging memory, charged to the budget.
/// Errors: those of `row_source` with path, offset and length, after all requests in flight have returned; the source
/// remains usable. Throws over_budget.
/// Thread-safety: a gather begins and finishes on one thread, the next may use another; `statistics` from any.
/// Source: Park et al., "Ginex", VLDB 2022, section 4, also gathers by direct reads, one row per call on many threads;
/// reading nearby rows together and filling a window from one thread are ours.
class disk_rows {
public:
    /// Opens the file. Precondition: the executor and the budget outlive this.
    disk_rows(const engine_factory& engines, stored_rows rows, const gather_options& options, executor_ref executor,
        memory_budget& budget)
        : rows_(std::move(rows)),
          options_(options),
          executor_(executor),
          budget_(budget),
          engine_(make_engine(engines)),
          file_(engine_, rows_.path, {.direct = options.direct}),
          mask_(file_.alignment() - 1),
          window_(2 * engine_.traits().depth) {
        rows_.check(file_.size());
        options_.run_bytes = run_bytes_of(options_, file_.alignment());
        const auto [blocks, block_bytes] = staging_of(rows_.row_bytes, options_, file_.alignment());
        charge_ = budget.charge(need(rows_.row_bytes, options_, file_.alignment()));
        staging_ = aligned_buffer<std::byte>(blocks * block_bytes);
        advise_huge_pages(staging_.data(), staging_.size());
        for (std::size_t i = 0; i < blocks; ++i)
            blocks_.push_back({.memory = staging_.span().subspan(i * block_bytes, block_bytes)});
        free_.reserve(blocks);
        forget();
    }
    disk_rows(const disk_rows&) = delete;
    disk_rows& operator=(const disk_rows&) = delete;

    /// Returns the memory of gathers of at most `batch_rows` rows, 16 bytes for each of which are charged when they are
    /// gathered.
    [[nodiscard]] static memory_need need(std::size_t row_bytes, const gather_options& options,
        std::size_t alignment = page_alignment, std::uint64_t batch_rows = 0) {
        const auto [blocks, block_bytes] = staging_of(row_bytes, options, alignment);
        return {"row gather", blocks * block_bytes + 2 * sizeof(std::uint64_t) * batch_rows};
    }

    [[nodiscard]] std::uint64_t rows() const noexcept { return rows_.rows; }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return rows_.row_bytes; }
    /// Returns the place of the rows.
    [[nodiscard]] const stored_rows& stored() const noexcept { return rows_; }

    void gather(std::span<const node_id> ids, const gather_target& to) {
        begin(ids, to);
        finish();
    }

    /// Starts a gather: the first window is submitted on return.
    void begin(std::span<const node_id> ids, const gather_target& to) {
        drop();
        rows_.check(ids, to);
        sort(ids);
        target_ = to;
        try {
            enqueue();
            queue_.submit();
        } catch (...) {
            drop();
            throw;
        }
    }

    /// Finishes the gather: reads the rest and writes to the target. Without a `begin` it does nothing.
    void finish() {
        try {
            for (;;) {
                enqueue();
                if (!complete_.empty()) {
                    queue_.submit();
                    const std::uint32_t index = complete_.back();
                    complete_.pop_back();
                    scatter(blocks_[index]);
                    free_.push_back(index);
                } else if (const auto index = queue_.next_done()) {
                    arrived(static_cast<std::uint32_t>(*index));
                } else {
                    break;
                }
            }
        } catch (...) {
            drop();
            throw;
        }
        const std::scoped_lock lock(mutex_);
        statistics_.rows += order_.size();
        statistics_.bytes_wanted += distinct_ * rows_.row_bytes;
        statistics_.io = queue_.stats();
        order_.clear();
        distinct_ = 0;
    }

    [[nodiscard]] gather_stats statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    /// Smallest block that several threads copy; bytes per thread.
    static constexpr std::size_t scatter_bytes = std::size_t{256} << 10, scatter_grain = std::size_t{64} << 10;
    static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

    /// One request: rows order_[first …), at `offset` in the file and at `at` in the block.
    struct run {
        std::size_t first = 0;
        std::uint64_t offset = 0;
        std::size_t at = 0;
    };
    /// Staging memory of consecutive runs, with the rows order_[runs.front().first, last).
    struct block {
        std::span<std::byte> memory;
        std::vector<run> runs{};
        std::size_t last = 0;
        std::size_t used = 0;
        std::size_t open = 0; // runs that have not arrived
        bool whole = false;   // no run will be added
    };
    struct by_value {
        [[nodiscard]] static std::uint64_t key(std::uint64_t value) noexcept { return value; }
        [[nodiscard]] bool operator()(std::uint64_t a, std::uint64_t b) const noexcept { return a < b; }
    };

    /// Returns the size of the largest request of several rows.
    [[nodiscard]] static std::size_t run_bytes_of(const gather_options& options, std::size_t alignment) noexcept {
        return std::max(options.run_bytes & ~(alignment - 1), alignment);
    }
    struct staging {
        std::size_t blocks = 0, block_bytes = 0;
    };
    [[nodiscard]] static staging staging_of(
        std::size_t row_bytes, const gather_options& options, std::size_t alignment) noexcept {
        const std::size_t longest = round_up(row_bytes + alignment - 1, alignment), // one row, at worst
            block_bytes = std::max({2 * run_bytes_of(options, alignment), scatter_bytes, longest});
        return {std::max<std::size_t>(options.staging_bytes / block_bytes, 2), block_bytes};
    }

    [[nodiscard]] static node_id id_of(std::uint64_t entry) noexcept { return static_cast<node_id>(entry >> 32); }

    /// Sets order_ to the ids with their positions, ascending.
    void sort(std::span<const node_id> ids) {
        if (ids.size() > std::numeric_limits<std::uint32_t>::max())
            throw error(errc::out_of_range, "a gather of 2^32 rows or more");
        if (ids.size() > other_.size()) {
            free_memory(order_);
            free_memory(other_);
            budget_.raise(charge_, need(rows_.row_bytes, options_, file_.alignment(), ids.size()).bytes);
            order_.reserve(ids.size());
            other_.resize(ids.size());
        }
        order_.resize(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) order_[i] = (std::uint64_t{ids[i]} << 32) | i;
        if (!std::ranges::is_sorted(order_))
            detail::sort_records(executor_, order_.data(), other_.data(), ids.size(), by_value{});
        next_ = distinct_ = 0;
    }

    /// Queues runs while the queue has room and blocks are free.
    void enqueue() {
        while (next_ < order_.size() && queue_.outstanding() < window_) {
            if (filling_ == none) {
                if (free_.empty()) return;
                filling_ = free_.back(); // the last one used is most likely in the CPU cache
                free_.pop_back();
                blocks_[filling_] = {.memory = blocks_[filling_].memory, .runs = std::move(blocks_[filling_].runs)};
                blocks_[filling_].runs.clear();
            }
            add_run();
        }
    }

    /// Finds the longest run from order_[next_] on and adds it to the current block, or closes the block if it is full.
    void add_run() {
        const std::uint64_t begin = rows_.offset_of(id_of(order_[next_])) & ~std::uint64_t{mask_};
        std::uint64_t end = begin, wanted = begin; // end of the blocks; end of the rows
        std::size_t last = next_, distinct = 0;
        for (; last < order_.size(); ++last) {
            const std::uint64_t row = rows_.offset_of(id_of(order_[last]));
            if (row + rows_.row_bytes == wanted) continue; // a repeated row
            const std::uint64_t row_end = (row + rows_.row_bytes + mask_) & ~std::uint64_t{mask_};
            if (last != next_ &&
                ((row & ~std::uint64_t{mask_}) > end + options_.coalesce_bytes || row_end - begin > options_.run_bytes))
                break;
            end = row_end;
            wanted = row + rows_.row_bytes;
            ++distinct;
        }
        block& to = blocks_[filling_];
        const auto length = static_cast<std::size_t>(end - begin);
        if (length > to.memory.size() - to.used) return close();
        queue_.read(
            file_, begin, to.memory.subspan(to.used, length), filling_, static_cast<std::size_t>(wanted - begin));
        to.runs.push_back({next_, begin, to.used});
        to.used += length;
        to.last = next_ = last;
        ++to.open;
        distinct_ += distinct;
        if (next_ == order_.size()) close();
    }

    void close() {
        const std::uint32_t index = std::exchange(filling_, none);
        blocks_[index].whole = true;
        if (blocks_[index].open == 0) complete_.push_back(index);
    }

    void arrived(std::uint32_t index) {
        block& of = blocks_[index];
        if (--of.open == 0 && of.whole) complete_.push_back(index);
    }

    void scatter(const block& from) const {
        const std::size_t first = from.runs.front().first;
        parallel_for(executor_, from.last - first, std::max<std::size_t>(scatter_grain / rows_.row_bytes, 1),
            [&](std::size_t i, std::size_t end) {
                auto r = std::ranges::upper_bound(from.runs, first + i, {}, &run::first) - 1;
                for (i += first, end += first; i < end; ++i) {
                    if (r + 1 != from.runs.end() && (r + 1)->first == i) ++r;
                    const std::byte* row = from.memory.data() + r->at + (rows_.offset_of(id_of(order_[i])) - r->offset);
                    std::memcpy(target_.row(static_cast<std::uint32_t>(order_[i])), row, rows_.row_bytes);
                }
            });
    }

    /// Waits for requests in flight and drops the gather.
    void drop() noexcept {
        if (order_.empty()) return;
        queue_.abandon();
        forget();
        const std::scoped_lock lock(mutex_);
        statistics_.io = queue_.stats();
    }
    void forget() noexcept {
        order_.clear();
        complete_.clear();
        free_.clear();
        filling_ = none;
        for (std::size_t i = blocks_.size(); i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
    }

    stored_rows rows_;
    gather_options options_;
    executor_ref executor_;
    memory_budget& budget_;
    any_engine engine_;
    file file_;
    std::size_t mask_;   // alignment − 1
    std::size_t window_; // requests queued: the engine's depth, and the same number to follow
    memory_charge charge_;
    aligned_buffer<std::byte> staging_;
    std::vector<block> blocks_;
    std::vector<std::uint32_t> free_, complete_; // blocks
    std::uint32_t filling_ = none;
    io_queue queue_{engine_}; // before all memory that it reads into is freed

    gather_target target_;
    std::vector<std::uint64_t> order_, other_; // id << 32 | position among the ids
    std::size_t next_ = 0;                     // first of order_ that is in no run
    std::uint64_t distinct_ = 0;
    mutable std::mutex mutex_; // guards the members below
    gather_stats statistics_;
};

static_assert(async_row_source<disk_rows>);

} // namespace gneiss
