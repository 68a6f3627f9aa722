// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/order/plan.hpp>
#include <gneiss/storage/detail/check_plan.hpp>
#include <gneiss/storage/embedding/concepts.hpp>
#include <gneiss/storage/embedding/embedding_file.hpp>
#include <gneiss/storage/embedding/residency.hpp>
#include <gneiss/storage/embedding/resident_embeddings.hpp>

namespace gneiss {

/// Keeps the rows of a state in memory for a batch. Copies share it; partitions can be released after the last copy.
using state_lease = std::shared_ptr<resident_embeddings>;
/// The same with rows that cannot be written.
using read_lease = std::shared_ptr<const resident_embeddings>;

/// Access of an epoch's leases to rows.
enum class lease_use : std::uint8_t {
    update, ///< `acquire` or `acquire_read`
    read    ///< `acquire_read` only: nothing is written back
};

/// Memory of a partition buffer.
struct partition_buffer_options {
    std::uint32_t resident_partitions = 8; ///< maximum partitions of a state (the paper's c)
    std::uint32_t prefetch = 2;            ///< extra slots, for partitions that are loaded early or still being written
    trace_recorder* trace = nullptr;       ///< gets tracks of the loading and storing threads; outlives the buffer
};

/// Keeps the partitions of a plan's current states in memory, loads the next ones early and writes changed ones back
/// (Marius, OSDI'21, §4.2).
///
/// A training loop acquires the states in order and holds a lease while batches of a state are in flight:
///
///     buffer.begin_epoch(plan);
///     for (std::uint32_t i = 0; i < plan.size(); ++i) { auto rows = buffer.acquire(i); … }   // batches copy the lease
///     buffer.end_epoch();
///
/// A swap does not drain the pipeline: batches of consecutive states overlap. A partition is released after the last
/// lease of its last state: one thread writes it while another loads the next one, and its slot is reused. If all
/// partitions of a plan fit (`resident_partitions` ≥ partitions), they stay, without I/O between the first load and the
/// next `flush`.
///
/// Memory, charged: `need`, (resident_partitions + prefetch) · embedding_file::slot_bytes(). Exact I/O:
/// `cost_of(plan)`. Thread-safety: one thread drives (begin, acquire, end, flush, scan); leases may be dropped on any
/// thread. Errors of the background threads are rethrown by the next driving call; none is lost.
///
/// From examples/25_own_pipeline.cpp:
/// \snippet 25_own_pipeline.cpp buffers
class partition_buffer {
public:
    /// Precondition: `file` outlives the buffer. Throws errc::invalid_argument for a buffer of no partitions;
    /// over_budget; std::system_error if a thread cannot be started.
    partition_buffer(embedding_file& file, const partition_buffer_options& options, memory_budget& budget)
        : file_(file),
          partitions_(file.partitioning().partitions),
          keep_(options.resident_partitions >= partitions_),
          memory_slots_(slots_of(options, partitions_)),
          charge_(budget.charge(need(file.partitioning(), file.layout(), options))),
          reader_track_(open_track(options.trace, "partition reader")),
          writer_track_(open_track(options.trace, "partition writer")) {
        const std::size_t floats = file.slot_bytes() / sizeof(float);
        for (std::uint32_t i = 0; i < memory_slots_; ++i) {
            memory_.push_back(aligned_buffer<float>::zeroed(floats));
            free_memory_.push_back(buffer_slot{memory_slots_ - 1 - i});
        }
        reader_ = std::jthread([this](const std::stop_token& stop) { run(stop, &partition_buffer::load_next); });
        writer_ = std::jthread([this](const std::stop_token& stop) { run(stop, &partition_buffer::write_next); });
    }

    /// Returns the memory of a buffer of such rows.
    [[nodiscard]] static memory_need need(
        const row_partitioning& rows, const row_layout& layout, const partition_buffer_options& options) {
        return {"partition buffer", slots_of(options, rows.partitions) * embedding_file::slot_bytes_of(rows, layout)};
    }

    partition_buffer(const partition_buffer&) = delete;
    partition_buffer& operator=(const partition_buffer&) = delete;

    /// Returns the file of the rows.
    [[nodiscard]] const embedding_file& file() const noexcept { return file_; }
    /// Returns the number of partitions that memory holds.
    [[nodiscard]] std::uint32_t memory_slots() const noexcept { return memory_slots_; }
    /// Returns true if every partition stays in memory.
    [[nodiscard]] bool keeps_all() const noexcept { return keep_; }

    /// Starts an epoch at `first_state`; loading begins at once. If leases update rows, partitions are written on
    /// release.
    /// Throws errc::invalid_argument for a plan of other partitions, for a first state beyond it, for a state with more
    /// partitions than slots, and if the previous epoch, finished or abandoned, was not ended: its changes would be
    /// lost.
    void begin_epoch(epoch_plan states, std::uint32_t first_state = 0, lease_use use = lease_use::update) {
        detail::check_plan(states, partitions_);
        const std::scoped_lock lock(mutex_);
        if (failure_) std::rethrow_exception(failure_);
        if (running_) throw error(errc::invalid_argument, "an epoch begins before the one before it was ended");
        if (first_state > states.size())
            throw error(errc::invalid_argument,
                "an epoch begins at state " + std::to_string(first_state) + " of a plan of " +
                    std::to_string(states.size()));
        for (const buffer_state& s : states)
            if (s.resident.size() > memory_slots_)
                throw error(errc::invalid_argument,
                    "a state names " + std::to_string(s.resident.size()) + " partitions, the buffer has " +
                        std::to_string(memory_slots_) + " slots");
        const bool replaced = !keep_ || residencies_.empty();
        std::vector<tracked_residency> stays;
        if (replaced && keep_)
            for (partition_id p = 0; p < partitions_; ++p) stays.push_back({{p, 0, 0}, 1});
        else if (replaced)
            for (const residency& each : residencies_of(states, first_state))
                stays.push_back({each, each.last - each.first + 1});
        changes_ = use == lease_use::update; // no failure is possible from here on
        commit_wanted_ = false;
        if (changes_) flushed_ = false;
        plan_ = std::move(states);
        next_state_ = first_state;
        running_ = true;
        if (replaced) {
            residencies_ = std::move(stays);
            next_load_ = first_live_ = 0;
        }
        changed_.notify_all();
    }

    /// Returns the rows of state `index`, after all its partitions are loaded. States are acquired in order, once each.
    /// Waits for leases that hold the memory it needs: a thread that keeps those of earlier states waits for itself.
    ///
    /// Empty if the disk has no free slot for a partition that must be released, or `committed` did not follow a
    /// `flush`: drop every lease, then `flush`, make a checkpoint, call `committed` and retry. Throws
    /// errc::invalid_argument outside an epoch, for another state than the next one, and in an epoch that reads;
    /// errc::canceled on stop; rethrows errors of the background threads.
    [[nodiscard]] std::optional<state_lease> acquire(std::uint32_t index, const std::stop_token& stop = {}) {
        return acquire_for(index, lease_use::update, stop);
    }
    /// Returns the same rows for reading, in an epoch of either use.
    [[nodiscard]] std::optional<read_lease> acquire_read(std::uint32_t index, const std::stop_token& stop = {}) {
        return acquire_for(index, lease_use::read, stop);
    }

    /// Ends the epoch: waits for the leases, writes changed partitions and empties the buffer (unless it keeps all).
    ///
    /// Precondition: every state was acquired, or no more will be (an abandoned epoch).
    void end_epoch() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return failure_ || leases_ == 0; });
        next_state_ = static_cast<std::uint32_t>(plan_.size());
        retire_all();
        changed_.notify_all();
        changed_.wait(lock, [&] {
            return failure_ || commit_wanted_ || keep_ ||
                std::ranges::all_of(residencies_, [](const tracked_residency& s) { return s.status == phase::gone; });
        });
        if (failure_) std::rethrow_exception(failure_);
        running_ = commit_wanted_;
    }
    /// Returns true if `end_epoch` left partitions because the disk needs a commit first: `flush`, then end again.
    [[nodiscard]] bool commit_wanted() const {
        const std::scoped_lock lock(mutex_);
        return commit_wanted_;
    }

    /// Writes all changes and makes them durable; partitions stay in memory. Throws errc::no_space if the file does not
    /// have a spare slot for each changed partition. Nothing is written after that until `committed`, so that the
    /// checkpoint made meanwhile names whole partitions. Another `flush`, or an epoch of updates, discards a checkpoint
    /// that was not committed.
    /// Precondition: no thread reads or updates rows meanwhile; leases may be held and dropped.
    void flush() {
        std::unique_lock lock(mutex_);
        flushed_ = false;
        flushing_ = true;
        for (tracked_residency& s : residencies_)
            if (s.status == phase::resident && s.dirty) s.status = phase::flushing;
        changed_.notify_all();
        changed_.wait(lock, [&] {
            return failure_ || std::ranges::none_of(residencies_, [](const tracked_residency& s) {
                return s.status == phase::flushing || s.status == phase::writing || leaving(s);
            });
        });
        flushing_ = false;
        if (failure_) std::rethrow_exception(failure_);
        for (tracked_residency& s : residencies_) s.dirty |= changes_ && s.leases > 0; // their batches continue
        flushed_ = true;
        lock.unlock();
        try {
            file_.sync();
        } catch (...) { // the rows in memory may be the only copy: no more releases
            lock.lock();
            failure_ = std::current_exception();
            changed_.notify_all();
            throw;
        }
    }
    /// Records that a checkpoint now names the slots that `flush` wrote; frees those of the previous one.
    void committed() {
        const std::scoped_lock lock(mutex_);
        file_.commit();
        commit_wanted_ = flushed_ = false;
        changed_.notify_all();
    }

    /// Visits all rows in order, one partition per block, loading ahead. Precondition: no epoch is running.
    void for_each_block(const embedding_block_visitor& visit) {
        epoch_plan one_by_one(partitions_);
        for (partition_id p = 0; p < partitions_; ++p) one_by_one[p].resident = {p};
        begin_epoch(std::move(one_by_one), 0, lease_use::read);
        try {
            for (partition_id p = 0; p < partitions_; ++p)
                visit(file_.partitioning().begin(p), (*acquire_read(p))->values(p));
        } catch (...) {
            end_epoch();
            throw;
        }
        end_epoch();
    }
    [[nodiscard]] std::uint64_t rows() const noexcept { return file_.partitioning().nodes; }
    [[nodiscard]] std::size_t dim() const noexcept { return file_.layout().dim; }

private:
    /// Background work on a partition. Leaving is not a phase: leases are dropped in any of them.
    enum class phase : std::uint8_t { planned, loading, resident, flushing, writing, gone };
    struct tracked_residency {
        residency span;
        std::uint32_t states_left = 0; // 0: is released when no work on it is left
        std::uint32_t leases = 0;
        buffer_slot slot{};
        phase status = phase::planned;
        bool dirty = false;
    };

    [[nodiscard]] static bool leaving(const tracked_residency& s) noexcept {
        return s.status == phase::resident && s.states_left == 0;
    }

    /// Shared by the leases of a state: its rows, and its residencies.
    struct hold {
        hold(partition_buffer& buffer, std::vector<std::size_t> indices)
            : rows(buffer.file_.partitioning(), buffer.file_.layout(), buffer.locks_),
              from(buffer),
              stays(std::move(indices)) {}
        ~hold() {
            if (counts) from.release(stays);
        }
        hold(const hold&) = delete;
        hold& operator=(const hold&) = delete;

        resident_embeddings rows;
        partition_buffer& from;
        std::vector<std::size_t> stays;
        bool counts = false;
    };

    void notify() {
        const std::scoped_lock lock(mutex_);
        changed_.notify_all();
    }

    [[nodiscard]] static std::uint32_t slots_of(const partition_buffer_options& options, std::uint32_t partitions) {
        if (options.resident_partitions == 0)
            throw error(errc::invalid_argument, "a buffer of partitions needs room for one");
        if (options.resident_partitions >= partitions) return partitions;
        return options.resident_partitions + std::min(options.prefetch, partitions);
    }

    /// Returns the rows of the next state, marked as changed if they may be updated.
    [[nodiscard]] std::optional<state_lease> acquire_for(
        std::uint32_t index, lease_use use, const std::stop_token& stop) {
        const std::stop_callback wake(stop, [this] { notify(); });
        std::unique_lock lock(mutex_);
        if (failure_) std::rethrow_exception(failure_);
        check_acquire(index, use);
        const std::vector<std::size_t> wanted = residencies_of_state(index);
        changed_.wait(lock, [&] {
            return failure_ || commit_wanted_ || stop.stop_requested() ||
                std::ranges::all_of(wanted, [&](std::size_t i) { return residencies_[i].status == phase::resident; });
        });
        if (failure_) std::rethrow_exception(failure_);
        if (stop.stop_requested()) throw error(errc::canceled, "stopped while loading partitions");
        if (!std::ranges::all_of(wanted, [&](std::size_t i) { return residencies_[i].status == phase::resident; }))
            return std::nullopt;
        // the last allocation; until counted, its destructor releases nothing
        const auto held = std::make_shared<hold>(*this, wanted);
        for (const std::size_t i : wanted) {
            held->rows.place(residencies_[i].span.partition, memory_[residencies_[i].slot.value()].data());
            ++residencies_[i].leases;
            residencies_[i].dirty |= use == lease_use::update;
        }
        ++leases_;
        ++next_state_;
        held->counts = true;
        return state_lease(held, &held->rows);
    }

    void check_acquire(std::uint32_t index, lease_use use) const {
        if (!running_)
            throw error(errc::invalid_argument, "state " + std::to_string(index) + " is acquired outside an epoch");
        if (next_state_ >= plan_.size())
            throw error(errc::invalid_argument,
                "state " + std::to_string(index) + " is acquired after all " + std::to_string(plan_.size()) +
                    " states of the plan");
        if (index != next_state_)
            throw error(errc::invalid_argument,
                "state " + std::to_string(index) + " is acquired, the next one is state " +
                    std::to_string(next_state_));
        if (use == lease_use::update && !changes_)
            throw error(
                errc::invalid_argument, "an epoch that only reads gives no leases for updates: call acquire_read");
    }

    /// Runs a background thread: repeats `step` until stopped; keeps its first exception for the driving thread.
    void run(const std::stop_token& stop, bool (partition_buffer::*step)(std::unique_lock<std::mutex>&)) {
        const std::stop_callback wake(stop, [this] { notify(); }); // outlives the lock, which `notify` needs
        std::unique_lock lock(mutex_);
        try {
            while (!stop.stop_requested()) {
                if (!failure_ && (this->*step)(lock)) continue;
                const bool has_work = step == &partition_buffer::load_next && next_load_ < residencies_.size();
                const trace_span waits(has_work ? reader_track_.get() : nullptr, "wait for a free slot");
                changed_.wait(lock);
            }
        } catch (...) {
            if (!lock.owns_lock()) lock.lock();
            failure_ = std::current_exception();
            changed_.notify_all();
        }
    }

    /// Loads the next planned residency if there is room and its last version is on disk. Returns false if it did
    /// nothing.
    bool load_next(std::unique_lock<std::mutex>& lock) {
        if (next_load_ == residencies_.size() || free_memory_.empty()) return false;
        tracked_residency& next = residencies_[next_load_];
        for (std::size_t i = first_live_; i < next_load_; ++i)
            if (residencies_[i].span.partition == next.span.partition && residencies_[i].status != phase::gone)
                return false;
        const std::size_t index = next_load_++;
        next.slot = free_memory_.back();
        free_memory_.pop_back();
        next.status = phase::loading;
        const partition_id p = next.span.partition;
        aligned_buffer<float>& to = memory_[next.slot.value()];
        lock.unlock();
        {
            const trace_span span(reader_track_.get(), "load partition", {.partition = p, .bytes = file_.bytes_of(p)});
            file_.read(p, to.bytes());
        }
        lock.lock();
        residencies_[index].status = phase::resident;
        changed_.notify_all();
        return true;
    }

    /// Writes one residency that is leaving or must be flushed. Returns false if it did nothing.
    bool write_next(std::unique_lock<std::mutex>& lock) {
        while (first_live_ < next_load_ && residencies_[first_live_].status == phase::gone) ++first_live_;
        const auto found = std::find_if(residencies_.begin() + static_cast<std::ptrdiff_t>(first_live_),
            residencies_.begin() + static_cast<std::ptrdiff_t>(next_load_),
            [](const tracked_residency& s) { return s.status == phase::flushing || leaving(s); });
        if (found == residencies_.begin() + static_cast<std::ptrdiff_t>(next_load_)) return false;
        const std::size_t index = static_cast<std::size_t>(found - residencies_.begin());
        if (found->dirty) {
            const partition_id p = found->span.partition;
            std::optional<disk_slot> slot;
            if (!flushed_) slot = file_.begin_write(p, flushing_ ? 0 : memory_slots_);
            if (!slot) {
                if (flushing_) // `committed` frees slots, and follows it
                    throw error(errc::no_space, "has fewer spare slots than partitions that changed in memory",
                        {.path = file_.path()});
                commit_wanted_ = true;
                changed_.notify_all();
                return false;
            }
            found->status = phase::writing;
            aligned_buffer<float>& from = memory_[found->slot.value()];
            lock.unlock();
            {
                const trace_span span(
                    writer_track_.get(), "store partition", {.partition = p, .bytes = file_.bytes_of(p)});
                file_.write(p, *slot, from.bytes());
            }
            lock.lock();
        }
        tracked_residency& done = residencies_[index];
        done.dirty = false;
        done.status = done.states_left == 0 ? phase::gone : phase::resident;
        if (done.status == phase::gone) free_memory_.push_back(done.slot);
        changed_.notify_all();
        return true;
    }

    /// Returns the indices of the residencies that include state `index`.
    [[nodiscard]] std::vector<std::size_t> residencies_of_state(std::uint32_t index) const {
        std::vector<std::size_t> found;
        for (std::size_t i = first_live_; i < residencies_.size(); ++i) {
            const residency& span = residencies_[i].span;
            if (!keep_ && span.first > index) break; // residencies are in the order of their first states
            const bool covers = keep_ ? std::ranges::binary_search(plan_[index].resident, span.partition)
                                      : span.first <= index && index <= span.last;
            if (covers) found.push_back(i);
        }
        return found;
    }

    /// Called when the last lease of a state is dropped: releases the partitions of which it was the last state.
    void release(std::span<const std::size_t> stays) noexcept {
        const std::scoped_lock lock(mutex_);
        --leases_;
        for (const std::size_t i : stays) {
            tracked_residency& s = residencies_[i];
            --s.leases;
            if (!keep_) --s.states_left;
        }
        changed_.notify_all();
    }

    /// Retires the residencies of an abandoned epoch: loaded ones leave, planned ones are dropped.
    void retire_all() {
        if (keep_) return;
        for (tracked_residency& s : residencies_) {
            s.states_left = 0;
            if (s.status == phase::planned) s.status = phase::gone;
        }
        next_load_ = residencies_.size();
    }

    embedding_file& file_;
    std::uint32_t partitions_;
    bool keep_;
    std::uint32_t memory_slots_;
    memory_charge charge_;
    std::unique_ptr<trace_track> reader_track_, writer_track_; // null without a trace
    row_locks locks_;
    std::vector<aligned_buffer<float>> memory_; // by buffer_slot

    mutable std::mutex mutex_; // guards everything below
    std::condition_variable changed_;
    std::vector<buffer_slot> free_memory_;
    epoch_plan plan_;
    std::vector<tracked_residency> residencies_; // for the current plan, in load order
    std::size_t next_load_ = 0;
    std::size_t first_live_ = 0; // all residencies before it are gone
    std::uint32_t leases_ = 0;
    std::uint32_t next_state_ = 0; // to acquire
    bool running_ = false;         // an epoch began and has not ended
    bool changes_ = true;
    bool flushing_ = false;
    bool flushed_ =
        false; // and not committed: a checkpoint may name the newest slots, which would be overwritten in place
    bool commit_wanted_ = false;
    std::exception_ptr failure_;

    std::jthread reader_, writer_; // last: they use the rest
};

static_assert(embedding_stream<partition_buffer>);

} // namespace gneiss
