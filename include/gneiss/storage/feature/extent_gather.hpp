// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/algorithms.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/memory.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/storage/feature/dealing_plan.hpp>
#include <gneiss/storage/feature/extent_file.hpp>
#include <gneiss/storage/feature/row_source.hpp>
#include <gneiss/storage/io/calibrate.hpp>
#include <gneiss/storage/io/detail/radix_sort.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/external_sort.hpp>

namespace gneiss {

/// Options of `extent_rows`.
struct extent_options {
    gather_way way = gather_way::automatic;         ///< the way that is taken
    std::filesystem::path directory{};              ///< existing directory for extents, when rows are dealt out
    std::uint64_t memory = std::uint64_t{16} << 20; ///< memory of the pass, and of reading extents; at least 64 KiB
    gather_options reads{};                         ///< those of the source below, if it is a `disk_rows`
    io_profile device{
        .bandwidth = 1e9, .iops = 61'000, .coalesce_bytes = 0, .spread = 1}; ///< rates by which `automatic` compares
    std::size_t least_piece = std::size_t{32} << 10;    ///< smaller write buffers make way for a second level
    std::function<void(const gather_choice&)> chosen{}; ///< called for each superbatch, by the gathering thread
};

/// Counts of `extent_rows` so far.
struct extent_statistics {
    std::uint64_t passes = 0;        ///< passes that dealt rows out
    std::uint64_t scanned_bytes = 0; ///< read by the passes from the source below
    std::uint64_t dealt_bytes = 0;   ///< written: extents, and what sorting the requests spilled
    std::uint64_t dealt_rows = 0;    ///< rows that batches took from extents

    friend bool operator==(const extent_statistics&, const extent_statistics&) = default;
};

/// Rows of another source, laid out on disk in the order in which batches use them.
///
///     extent_rows rows(std::move(below), engines, {.directory = "run"}, executor, budget);
///     rows.expect({n, misses});          // rows that a cache will miss in its next n batches
///     rows.gather(first, to);            // fills the cache; the pass deals the other rows out meanwhile
///     for (i = 0; i < n; ++i) {
///         rows.select(i);
///         rows.gather(ids, to);          // reads the extent of batch i
///     }
///
/// Meaning: the gather after `expect` reads its own rows and those of all coming batches in ascending order, each once,
/// in one pass: it skips stretches that are not asked for, and reads through gaps shorter than `coalesce_bytes` by the
/// source below. Own rows go to the target, the others to the extents of the batches that ask for them, by ascending
/// id, so that an extent needs no ids. The order of requests is an external sort of pairs of row and batch. If not
/// every extent can have a buffer of `least_piece`, rows go to extents of about √n batches first, with their batch, and
/// from there to the batches when the first of them is gathered. A gather that was not announced, of other rows than
/// announced, or of a batch that was not selected, reads from the source below: the result is the same rows in any
/// case.
/// Cost: the bytes of the rows between the first and the last that is asked for, at most; twice the bytes of the rows
/// dealt out (four times with two levels); 16 bytes per pair if the pairs exceed a ninth of the memory.
/// Memory: `need`, charged to the budget, and 8 bytes per piece of the extents, charged when they are needed.
/// Errors: those of both files. A full disk is errc::no_space, with the file and the bytes needed, and too little
/// memory over_budget; under `automatic` both mean that these batches read at random, and `chosen` reports why.
/// errc::corrupt if a checksum of an extent does not hold. No request is in flight after an error, and the source
/// remains usable.
/// Thread-safety: as a row source; `expect` and `select` count as gathers.
class extent_rows {
public:
    /// Precondition: the executor and the budget outlive this. Throws over_budget.
    extent_rows(any_row_source below, engine_factory engines, extent_options options, executor_ref executor,
        memory_budget& budget)
        : below_(std::move(below)),
          engines_(std::move(engines)),
          options_(std::move(options)),
          row_bytes_(below_.row_bytes()),
          share_{options_.memory, row_bytes_},
          executor_(executor),
          budget_(budget),
          charge_(budget.charge(need(below_.rows(), options_))) {
        if (options_.memory < least_memory)
            throw error(
                errc::invalid_argument, "dealing out rows needs at least " + format_bytes(least_memory) + " of memory");
        memory_ = aligned_buffer<std::byte>(static_cast<std::size_t>(share_.pool() + share_.spare()));
    }

    /// Least `extent_options::memory` [bytes].
    static constexpr std::uint64_t least_memory = std::uint64_t{64} << 10;

    /// Returns the memory of dealing rows out, with three bitmaps of the rows, and 16 bytes per row of the largest
    /// batch, charged when it is gathered.
    [[nodiscard]] static memory_need need(
        std::uint64_t rows, const extent_options& options, std::uint64_t batch_rows = 0) {
        return {"dealing out rows",
            options.memory + 3 * (rows / 64 + 1) * sizeof(std::uint64_t) + 2 * sizeof(std::uint64_t) * batch_rows};
    }

    [[nodiscard]] std::uint64_t rows() const { return below_.rows(); }
    [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }

    /// Announces the batches after the next gather, in place of those announced before. Drops an unfinished gather.
    void expect(coming_rows coming) {
        abandon();
        drop();
        coming_ = std::move(coming);
    }
    /// States that the next gather is that of batch `number` of those announced.
    void select(std::uint64_t number) noexcept { selected_ = number; }
    /// Forgets the announced batches and removes their extents.
    void drop() noexcept {
        account();
        reading_ = nullptr;
        coming_.reset();
        leaf_.reset();
        top_.reset();
        table_charge_ = {};
        plan_ = {};
    }

    void gather(std::span<const node_id> ids, const gather_target& to) {
        begin(ids, to);
        finish();
    }
    /// Starts a gather. The one after `expect` runs to its end.
    void begin(std::span<const node_id> ids, const gather_target& to) {
        abandon();
        const std::uint64_t batch = std::exchange(selected_, unselected);
        if (coming_) return deal(*std::exchange(coming_, std::nullopt), ids, to);
        const bool dealt =
            batch < plan_.batches() && plan_.rows(batch) == ids.size() && digests_[batch] == digest_of_rows(ids);
        if (dealt)
            begin_extent(batch, ids, to);
        else
            begin_below(ids, to);
    }
    /// Completes the gather that `begin` started.
    void finish() {
        if (below_begun_) return finish_below();
        if (reading_ == nullptr) return;
        or_abandon([&] {
            while (const auto part = reading_->next()) scatter(*part);
        });
        reading_ = nullptr;
        account();
        {
            const std::scoped_lock lock(mutex_);
            statistics_.dealt_rows += order_.size();
        }
        if (read_ + 1 == plan_.batches()) drop();
    }

    [[nodiscard]] gather_stats statistics() const {
        gather_stats all = below_.statistics();
        const std::scoped_lock lock(mutex_);
        all.io += io_;
        return all;
    }
    /// Returns passes and bytes so far.
    [[nodiscard]] extent_statistics dealt() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    static constexpr std::uint64_t unselected = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::size_t tag_bytes = dealing_plan::tag_bytes;

    /// Distinct rows of the pass that are read together, and who asks for them: row << 32 | batch, or number of batches
    /// + position in the gather.
    struct chunk {
        std::vector<node_id> rows{};
        std::vector<std::uint64_t> asked{};
        std::byte* memory = nullptr;
    };

    [[nodiscard]] std::span<std::byte> pool() noexcept {
        return memory_.span().first(static_cast<std::size_t>(share_.pool()));
    }
    [[nodiscard]] std::span<std::byte> spare() noexcept {
        return memory_.span().subspan(static_cast<std::size_t>(share_.pool()));
    }

    /// Plans the extents, and computes the cost of both ways.
    [[nodiscard]] gather_choice compare(const coming_rows& coming, std::span<const node_id> own) {
        coming_profile seen = profile_coming(coming, own, rows(), row_bytes_, options_.reads);
        plan_ = dealing_plan(std::move(seen.counts), share_, options_.least_piece);
        digests_ = std::move(seen.digests);
        const gather_cost extents = plan_.written();
        gather_choice choice{.random = seen.random,
            .scan = seen.pass + extents + extents,
            .random_seconds = 0,
            .scan_seconds = 0,
            .dealt_rows = seen.rows,
            .dealt_bytes = extents.bytes,
            .scanned = false,
            .obstacle = {}};
        const std::uint64_t pairs = (seen.rows + own.size()) * sizeof(std::uint64_t);
        const std::uint64_t spilled = pairs > share_.sort() * 7 / 16 ? pairs : 0;
        choice.scan.bytes += 2 * spilled;
        choice.random_seconds = choice.random.seconds(options_.device);
        choice.scan_seconds = choice.scan.seconds(options_.device);
        choice.scanned = options_.way == gather_way::scan || choice.scan_seconds < choice.random_seconds;
        if (!choice.scanned) return choice;
        const std::uint64_t needed = plan_.disk_bytes() + spilled, left = free_disk_bytes(options_.directory);
        if (needed > left)
            throw error(errc::no_space, full(needed) + format_bytes(left) + " are free", {.path = options_.directory});
        return choice;
    }
    [[nodiscard]] std::string full(std::uint64_t needed) const {
        return "the rows dealt out to " + std::to_string(plan_.batches()) + " batches need " + format_bytes(needed) +
            " on this disk, ";
    }
    [[nodiscard]] error no_space(std::uint64_t needed, const io_error& cause) const {
        return {errc::no_space, full(needed) + "which is full", {.path = cause.place().path}};
    }

    /// Waits for all requests in flight, as only the thread that submitted them can. Nothing is being read then.
    void abandon() noexcept {
        if (std::exchange(below_begun_, false)) drop_gather(below_);
        reading_ = nullptr;
        if (top_) top_->abandon();
        if (leaf_) leaf_->abandon();
    }
    /// Runs `work`; if it throws, no request is in flight.
    template <std::invocable Work>
    void or_abandon(Work&& work) {
        try {
            work();
        } catch (...) {
            abandon();
            throw;
        }
    }

    /// Does a part of dealing rows out that takes `bytes` on disk. If there is too little room or memory for it, drops
    /// all extents and, under `automatic`, returns the reason; else an empty string.
    template <std::invocable Work>
    [[nodiscard]] std::string obstacle_to(std::uint64_t bytes, Work work) {
        try {
            or_abandon(work);
            return {};
        } catch (const error& e) {
            drop();
            const bool expected = e.code() == errc::no_space || e.code() == errc::over_budget;
            if (!expected || options_.way == gather_way::scan) throw;
            return e.what();
        } catch (const io_error& e) {
            const error full_disk = no_space(bytes, e);
            drop();
            if (!e.out_of_space()) throw;
            if (options_.way == gather_way::scan) throw full_disk;
            return full_disk.what();
        } catch (...) {
            drop();
            throw;
        }
    }
    /// Reports that a batch reads at random.
    void give_up(std::string why) const {
        gather_choice choice;
        choice.obstacle = std::move(why);
        if (options_.chosen) options_.chosen(choice);
    }

    /// Reads the own rows of this gather into `to` and, if that is the way taken, deals those of coming batches out.
    void deal(const coming_rows& coming, std::span<const node_id> own, const gather_target& to) {
        check_rows(own, rows());
        to.check(own.size(), row_bytes_);
        gather_choice choice;
        if (options_.way != gather_way::random)
            choice.obstacle = obstacle_to(0, [&] { choice = compare(coming, own); });
        if (choice.scanned) choice.obstacle = obstacle_to(choice.dealt_bytes, [&] { distribute(coming, own, to); });
        choice.scanned = choice.scanned && choice.obstacle.empty();
        if (!choice.scanned) {
            drop();
            below_.gather(own, to);
        }
        if (options_.chosen && options_.way != gather_way::random) options_.chosen(choice);
    }

    void distribute(const coming_rows& coming, std::span<const node_id> own, const gather_target& to) {
        const std::uint64_t batches = coming.batches;
        if (batches + own.size() > std::numeric_limits<std::uint32_t>::max())
            throw error(errc::out_of_range, "rows are dealt out to fewer than 2^32 batches and slots");
        table_charge_ = budget_.charge(plan_.need());

        external_sorter<std::uint64_t, by_key<std::identity>, executor_ref> order(
            options_.directory, share_.sort(), {}, executor_);
        for (std::size_t i = 0; i < own.size(); ++i) order.push((std::uint64_t{own[i]} << 32) | (batches + i));
        coming.visit([&](std::size_t batch, std::span<const node_id> ids) {
            for (const node_id id : ids) order.push((std::uint64_t{id} << 32) | batch);
        });
        order.finish();

        const std::uint64_t before = below_.statistics().io.read_bytes;
        seen_top_ = {};
        top_.emplace(engines_, options_.directory / "extents", plan_.top(), identity_++, pool());
        pass(order, batches, to);
        top_->finish();
        account();
        const std::scoped_lock lock(mutex_);
        ++statistics_.passes;
        statistics_.scanned_bytes += below_.statistics().io.read_bytes - before;
        statistics_.dealt_bytes += order.report().spilled_bytes;
        io_.written_bytes += order.report().spilled_bytes;
        io_.read_bytes += order.report().spilled_bytes;
    }

    /// Reads the requested rows in ascending order, in chunks, and hands each to those who ask for it. A chunk is read
    /// while the one before is handed out.
    template <class Order>
    void pass(Order& order, std::uint64_t batches, const gather_target& to) {
        std::array<chunk, 2> both;
        std::byte* memory = spare().data();
        for (chunk& c : both) c.memory = std::exchange(memory, memory + share_.chunk_rows() * row_bytes_);
        chunk *reading = nullptr, *filling = &both[0];
        const auto turn = [&] {
            if (reading != nullptr) finish_below();
            if (!filling->rows.empty()) begin_below(filling->rows, {filling->memory, row_bytes_});
            if (reading != nullptr) hand_out(*reading, batches, to);
            reading = filling->rows.empty() ? nullptr : filling;
            filling = filling == &both[0] ? &both[1] : &both[0];
            filling->rows.clear();
            filling->asked.clear();
        };
        order.for_each_block([&](std::span<const std::uint64_t> block) {
            for (const std::uint64_t one : block) {
                const auto row = static_cast<node_id>(one >> 32);
                if (filling->rows.empty() || filling->rows.back() != row) {
                    if (filling->rows.size() == share_.chunk_rows() || filling->asked.size() >= 2 * share_.chunk_rows())
                        turn();
                    filling->rows.push_back(row);
                }
                filling->asked.push_back(one);
            }
        });
        turn();
        turn();
    }
    void hand_out(const chunk& from, std::uint64_t batches, const gather_target& to) {
        std::size_t at = 0;
        for (const std::uint64_t one : from.asked) {
            while (from.rows[at] != one >> 32) ++at;
            const std::span<const std::byte> row(from.memory + at * row_bytes_, row_bytes_);
            const auto whom = static_cast<std::uint32_t>(one);
            if (whom >= batches)
                std::memcpy(to.row(static_cast<std::size_t>(whom - batches)), row.data(), row_bytes_);
            else if (plan_.two_levels())
                top_->append(static_cast<std::size_t>(plan_.group_of(whom)), std::as_bytes(std::span(&whom, 1)), row);
            else
                top_->append(whom, {}, row);
        }
    }

    /// Deals the rows of a group out to its batches.
    void split(std::uint64_t group) {
        if (leaf_ && leaf_group_ == group) return;
        account();
        leaf_.emplace(engines_, options_.directory / "extents.group", plan_.leaf(group), identity_++, pool());
        leaf_group_ = group;
        seen_leaf_ = {};
        const std::uint64_t first = plan_.first_of(group);
        top_->begin(static_cast<std::size_t>(group), spare());
        while (const auto part = top_->next())
            for (auto rest = part->bytes; !rest.empty(); rest = rest.subspan(tag_bytes + row_bytes_)) {
                std::uint32_t batch = 0;
                std::memcpy(&batch, rest.data(), tag_bytes);
                leaf_->append(static_cast<std::size_t>(batch - first), {}, rest.subspan(tag_bytes, row_bytes_));
            }
        leaf_->finish();
    }

    void begin_below(std::span<const node_id> ids, const gather_target& to) {
        below_.begin(ids, to);
        below_begun_ = true;
    }
    void finish_below() {
        below_begun_ = false;
        below_.finish();
    }
    void begin_extent(std::uint64_t batch, std::span<const node_id> ids, const gather_target& to) {
        to.check(ids.size(), row_bytes_);
        if (plan_.two_levels()) {
            const std::uint64_t group = plan_.group_of(batch), bytes = plan_.leaf(group).bytes();
            if (std::string why = obstacle_to(bytes, [&] { split(group); }); !why.empty()) {
                give_up(std::move(why));
                return begin_below(ids, to);
            }
        }
        try {
            sort(ids);
        } catch (const over_budget& e) { // a batch with more rows than any before
            if (options_.way == gather_way::scan) throw;
            give_up(e.what());
            return begin_below(ids, to);
        }
        target_ = to;
        read_ = batch;
        extent_file& from = plan_.two_levels() ? *leaf_ : *top_;
        from.begin(static_cast<std::size_t>(plan_.two_levels() ? batch - plan_.first_of(leaf_group_) : batch), pool());
        reading_ = &from;
    }

    /// Sets order_ to the ids with their positions, ascending.
    void sort(std::span<const node_id> ids) {
        struct by_value {
            [[nodiscard]] static std::uint64_t key(std::uint64_t value) noexcept { return value; }
            [[nodiscard]] bool operator()(std::uint64_t a, std::uint64_t b) const noexcept { return a < b; }
        };
        if (ids.size() > other_.size()) {
            free_memory(order_);
            free_memory(other_);
            budget_.raise(charge_, need(below_.rows(), options_, ids.size()).bytes);
            order_.reserve(ids.size());
            other_.resize(ids.size());
        }
        order_.resize(ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) order_[i] = (std::uint64_t{ids[i]} << 32) | i;
        detail::sort_records(executor_, order_.data(), other_.data(), ids.size(), by_value{});
    }
    /// Copies rows of the extent to their places: its k-th row is that of the k-th smallest id.
    void scatter(const extent_part& part) const {
        parallel_for(executor_, part.bytes.size() / row_bytes_,
            std::max<std::size_t>((std::size_t{64} << 10) / row_bytes_, 1), [&](std::size_t i, std::size_t end) {
                for (; i < end; ++i)
                    std::memcpy(
                        target_.row(static_cast<std::uint32_t>(order_[static_cast<std::size_t>(part.first) + i])),
                        part.bytes.data() + i * row_bytes_, row_bytes_);
            });
    }
    /// Adds the I/O of the extents since the last call.
    void account() noexcept {
        const std::scoped_lock lock(mutex_);
        const auto add = [&](const std::optional<extent_file>& of, io_stats& seen) {
            if (!of) return;
            const io_stats more = of->stats() - seen;
            io_ += more;
            statistics_.dealt_bytes += more.written_bytes;
            seen = of->stats();
        };
        add(top_, seen_top_);
        add(leaf_, seen_leaf_);
    }

    any_row_source below_;
    engine_factory engines_;
    extent_options options_;
    std::size_t row_bytes_;
    dealing_memory share_;
    executor_ref executor_;
    memory_budget& budget_;
    memory_charge charge_, table_charge_;
    aligned_buffer<std::byte> memory_; // pool, then spare

    std::optional<coming_rows> coming_;  // announced, not yet dealt out
    dealing_plan plan_;                  // of the batches that have extents; empty: none
    std::vector<std::uint64_t> digests_; // of the rows of each batch
    std::uint64_t identity_ = 1, leaf_group_ = 0;
    std::optional<extent_file> top_, leaf_; // of batches, or of groups and of the batches of one
    io_stats seen_top_, seen_leaf_;         // parts of io_

    std::uint64_t selected_ = unselected;
    bool below_begun_ = false;       // the gather is from the source below
    extent_file* reading_ = nullptr; // else from here; null: none
    std::uint64_t read_ = 0;         // batch
    gather_target target_;
    std::vector<std::uint64_t> order_, other_; // id << 32 | position among the ids

    mutable std::mutex mutex_; // guards the members below
    io_stats io_;              // of the extents
    extent_statistics statistics_;
};

static_assert(async_row_source<extent_rows>);

} // namespace gneiss
