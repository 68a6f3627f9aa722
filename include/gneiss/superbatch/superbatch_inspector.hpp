// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/cache/belady.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/ref.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/core/types.hpp>
#include <gneiss/sample/any_sampler.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/run_file.hpp>
#include <gneiss/storage/io/trace_file.hpp>
#include <gneiss/superbatch/seed_batches.hpp>
#include <gneiss/superbatch/superbatch.hpp>
#include <gneiss/superbatch/superbatch_sampler.hpp>

namespace gneiss {

/// Samples superbatches ahead of training, and computes the contents of the row cache at each of their batches: the
/// inspector of Ginex (VLDB'22, section 3.1).
///
/// The samples, requested ids and change sets of a superbatch are stored in files of `subdirectory`, which serves one
/// inspector at a time; at most two superbatches are on disk. Samples are those of its sampler under every schedule. If
/// more epochs follow, the first superbatch of the next epoch is prepared while the last of this one trains.
///
///     while (const auto batches = inspector.next(stop)) {   // null once halted
///         const mini_batch batch = inspector.load(*batches, arena);
///         …                                                 // gather its rows and apply the change set
///         inspector.gathered(*batches, index);
///     }
///
/// One thread loads batches and one gathers them, both in order. `next` rethrows errors of the inspecting thread.
/// `halt` ends the inspection; only it decides when batches may be drawn and gathered without the inspector.
/// Memory: one sample, that of `surroundings::ahead` while it samples, and the state of the change sets, as in
/// `belady_policy`.
class superbatch_inspector {
public:
    /// Numbers of an epoch and of a batch in it.
    using place = std::pair<std::uint64_t, std::uint64_t>;

    /// Inputs of the inspection.
    struct surroundings {
        any_sampler sampler; ///< sampler of batches, with its graph
        /// draws the same samples, with one pass over the neighbors; null: `sampler` does
        superbatch_sampler* ahead = nullptr;
        /// Returns the batches of an epoch, a function of its number. Called on the inspecting thread, which uses them.
        std::function<seed_batches(std::uint64_t epoch)> batches;
        /// For `alternate`: caches take turns in memory. Called on the inspecting thread while nothing is gathered or
        /// drawn. The last `before_gathering` runs on the thread that halts, possibly without a preceding
        /// `before_sampling`.
        std::function<void()> before_sampling{}, before_gathering{};
        std::uint64_t nodes = 0; ///< nodes of the graph
        executor_ref on;         ///< executor of change sets
    };

    /// Name of the directory in `superbatch_options::directory` that holds the files: removed before the inspection,
    /// and after.
    static constexpr const char* subdirectory = "superbatches";

    /// Throws errc::invalid_argument for superbatches without batches, or without a directory.
    static void check(const superbatch_options& options) {
        if (options.batches == 0) throw error(errc::invalid_argument, "a superbatch needs a batch");
        if (options.directory.empty())
            throw error(errc::invalid_argument, "superbatches are stored in files: a directory is needed",
                {.field = "superbatch_options::directory"});
    }

    /// Starts with the batch at `from`. Errors as `check`; errc::invalid_argument without `surroundings::batches`, or
    /// for a direct table without nodes; io_error.
    superbatch_inspector(superbatch_options options, surroundings around, place from)
        : options_(std::move(options)),
          around_(std::move(around)),
          track_(open_track(options_.trace, "inspector")),
          changes_track_(open_track(options_.trace, "change sets")),
          next_(from),
          position_(from) {
        check(options_);
        if (!around_.batches)
            throw error(errc::invalid_argument, "a function that returns the batches of an epoch is needed",
                {.field = "surroundings::batches"});
        if (options_.direct_table && options_.cache_capacity != 0 && around_.nodes == 0)
            throw error(
                errc::invalid_argument, "a direct table needs the number of nodes", {.field = "surroundings::nodes"});
        files_ = options_.directory / subdirectory;
        remove_tree(files_); // left over by a killed run
        make_directories(options_.directory);
        (void)make_directory(files_);
        thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
    }
    superbatch_inspector(const superbatch_inspector&) = delete;
    superbatch_inspector& operator=(const superbatch_inspector&) = delete;
    ~superbatch_inspector() {
        thread_ = {}; // requests a stop, joins
        ready_.clear();
        loading_.reset();
        std::error_code ignored;
        std::filesystem::remove(files_, ignored);
    }

    /// Position of the next batch: a run can resume from there with this inspector.
    [[nodiscard]] place position() const noexcept { return position_; }

    /// Returns the superbatch of the next batch to load, waiting until it is ready. Null if `stop` is requested first:
    /// the inspector is then halted, and the caller samples this and all later batches itself. Rethrows errors of the
    /// inspecting thread.
    [[nodiscard]] std::shared_ptr<superbatch> next(const std::stop_token& stop) {
        if (loading_) return loading_;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, stop, [&] { return failure_ || ended_ || halted_ || !ready_.empty(); });
            if (failure_) std::rethrow_exception(failure_);
            if (!halted_ && !ready_.empty()) {
                loading_ = std::move(ready_.front());
                ready_.pop_front();
                return loading_;
            }
            if (!halted_ && ended_) throw error(errc::closed, "no superbatch follows the last epoch");
        }
        halt();
        return nullptr;
    }

    /// Ends the inspection permanently. After it returns, the inspecting thread neither samples nor changes the caches.
    /// With `alternate` the caches are as `before_gathering` leaves them, so batches may be drawn and gathered. Waits
    /// for one sample or one change of the caches, not for the rest of a superbatch or its change sets. Called by the
    /// loading thread. Rethrows errors of the inspecting thread or of `before_gathering`.
    void halt() {
        thread_.request_stop();
        std::unique_lock lock(mutex_);
        halted_ = true;
        changed_.wait(lock, [&] { return !in_turn_; });
        if (failure_) std::rethrow_exception(failure_);
        if (options_.schedule != superbatch_schedule::alternate || caches_gather_) return;
        lock.unlock(); // nothing is gathered: the caches were last set for sampling
        if (around_.before_gathering) timed(&superbatch_statistics::switch_seconds, around_.before_gathering);
        caches_gather_ = true;
    }
    /// True if sampling ahead has been halted.
    [[nodiscard]] bool halted() const {
        const std::scoped_lock lock(mutex_);
        return halted_;
    }

    /// Reads the sample of the next batch, which belongs to `of`, into `arena`. Errors as `run_file_reader`.
    [[nodiscard]] mini_batch load(superbatch& of, mini_batch_arena& arena) {
        const mini_batch result = of.load(arena);
        if (++position_.second == of.last()) {
            if (of.ends_epoch()) position_ = {of.epoch() + 1, 0};
            loading_.reset();
        }
        return result;
    }

    /// Reports that batch `index` of `of` is gathered and its change set applied.
    void gathered(superbatch& of, std::uint64_t index) {
        if (index + 1 != of.last()) return;
        const std::scoped_lock lock(mutex_);
        of.gathered_ = true;
        changed_.notify_all();
    }

    /// Returns statistics so far.
    [[nodiscard]] superbatch_statistics statistics() const {
        const std::scoped_lock lock(mutex_);
        return statistics_;
    }

private:
    using clock = std::chrono::steady_clock;

    template <class What>
    void timed(double superbatch_statistics::* seconds, What&& what) {
        const auto since = clock::now();
        what();
        const std::scoped_lock lock(mutex_);
        statistics_.*seconds += std::chrono::duration<double>(clock::now() - since).count();
    }

    void work(const std::stop_token& stop) noexcept {
        std::exception_ptr failure;
        try {
            if (options_.schedule == superbatch_schedule::alternate)
                alternate(stop);
            else
                overlap(stop);
        } catch (...) {
            failure = std::current_exception();
        }
        const std::scoped_lock lock(mutex_);
        failure_ = failure;
        ended_ = true;
        in_turn_ = false;
        changed_.notify_all();
    }

    /// Runs a step that `halt` waits for: sampling, or a change of the caches. Returns false without running it once
    /// halted. If the step throws, its thread ends and `halt` rethrows the error.
    template <class What>
    [[nodiscard]] bool turn(What&& what) {
        {
            const std::scoped_lock lock(mutex_);
            if (halted_) return false;
            in_turn_ = true;
        }
        what();
        const std::scoped_lock lock(mutex_);
        in_turn_ = false;
        changed_.notify_all();
        return true;
    }

    void overlap(const std::stop_token& stop) {
        std::shared_ptr<superbatch> before, result;
        while (turn([&] { result = sample(stop); }) && result) {
            find_changes(*result);
            publish(result);
            if (before && !wait_gathered(*before, stop)) return;
            before = std::move(result);
        }
    }

    void alternate(const std::stop_token& stop) {
        std::shared_ptr<superbatch> next;
        const auto sample_next = [&] { return turn([&] { next = sample(stop); }); };
        const auto give_caches = [&](const std::function<void()>& change, bool to_gathering) {
            return turn([&] {
                caches_gather_ = false;
                const trace_span span(change ? track_.get() : nullptr, "switch caches");
                if (change) timed(&superbatch_statistics::switch_seconds, change);
                caches_gather_ = to_gathering;
            });
        };
        if (!give_caches(around_.before_sampling, false) || !sample_next()) return;
        while (next) {
            const auto now = std::move(next);
            std::exception_ptr failure;
            {
                const std::jthread planner([&] {
                    try {
                        find_changes(*now);
                    } catch (...) {
                        failure = std::current_exception();
                    }
                });
                if (!sample_next()) return;
            }
            if (failure) std::rethrow_exception(failure);
            if (!give_caches(around_.before_gathering, true)) return;
            publish(now);
            if (!wait_gathered(*now, stop)) return;
            if (next && !give_caches(around_.before_sampling, false)) return;
        }
    }

    /// Samples the next superbatch; null after the last one, or if a stop is requested.
    [[nodiscard]] std::shared_ptr<superbatch> sample(const std::stop_token& stop) {
        std::shared_ptr<superbatch> result;
        trace_span span(track_.get(), "sample superbatch", {.epoch = next_.first, .batch = next_.second});
        timed(&superbatch_statistics::sample_seconds, [&] {
            result = sample_now(stop);
            if (around_.ahead != nullptr) around_.ahead->finish();
        });
        if (result) span.bytes(result->file_bytes());
        return result;
    }
    [[nodiscard]] std::shared_ptr<superbatch> sample_now(const std::stop_token& stop) {
        if (!std::exchange(begun_, true)) batches_ = around_.batches(next_.first);
        while (next_.second >= batches_.size()) {
            if (next_.first + 1 >= options_.epochs) return nullptr;
            batches_ = around_.batches(++next_.first);
            next_.second = 0;
        }
        auto result = std::make_shared<superbatch>(files_, number_++, next_.first, next_.second);
        run_file_writer samples(result->path("samples"), result->number_);
        trace_file_writer trace(result->path("trace"), result->number_);
        const std::uint64_t end = next_.second + std::min(options_.batches, batches_.size() - next_.second);
        for (; result->last_ < end; ++result->last_) {
            if (stop.stop_requested()) return nullptr;
            superbatch_sampler* const ahead = around_.ahead;
            const bool held = ahead == nullptr || ahead->holds(next_.first, result->last_);
            if (!held && !ahead->read(next_.first, batches_, result->last_, end, stop)) return nullptr;
            const seed_set seeds = batches_.of(result->last_);
            const mini_batch batch = ahead != nullptr
                ? ahead->sample(result->last_, seeds.nodes, arena_, seeds.excluded)
                : around_.sampler.sample(
                      {next_.first, {0, 0, result->last_}}, seeds.nodes, around_.on, arena_, seeds.excluded);
            const std::span<const node_id> ids = around_.sampler.nodes(batch);
            const bool full = options_.accesses != 0 && result->accesses_ + ids.size() > options_.accesses;
            if (full && result->last_ != result->first_) break; // drawn again for the next superbatch
            samples.append(batch.bytes());
            if (options_.cache_capacity != 0 || options_.keep_requests) trace.append(ids);
            result->accesses_ += ids.size();
        }
        next_.second = result->last_;
        result->ends_epoch_ = result->last_ == batches_.size();
        samples.finish();
        trace.finish();
        result->bytes_ = samples.bytes() + trace.bytes();
        return result;
    }

    void find_changes(superbatch& of) {
        if (options_.cache_capacity != 0) {
            const trace_span span(changes_track_.get(), "find change sets", {.epoch = of.epoch(), .batch = of.first()});
            timed(&superbatch_statistics::change_set_seconds, [&] { find_changes_now(of); });
        }
        const std::scoped_lock lock(mutex_);
        ++statistics_.superbatches;
        statistics_.batches += of.last() - of.first();
        statistics_.accesses += of.accesses();
        statistics_.file_bytes += of.file_bytes();
        statistics_.largest_bytes = std::max(statistics_.largest_bytes, of.file_bytes());
    }
    void find_changes_now(superbatch& of) {
        trace_file trace(of.path("trace"), of.number_);
        change_set_writer changes(of.path("changes"), of.number_);
        const bool carries = options_.carry && options_.schedule != superbatch_schedule::alternate;
        of.begins_empty_ = !carries || of.number_ == 0;
        const belady_options options{.capacity = options_.cache_capacity,
            .nodes = options_.direct_table ? around_.nodes : 0,
            .resident = resident_};
        const auto append = [&](std::size_t, const change_set& c) { changes.append(c); };
        belady_outcome result = options_.change_sets ? options_.change_sets(trace, options, append)
                                                     : belady(trace, options, around_.on, append);
        changes.finish();
        of.has_changes_ = true;
        of.fill_ = std::move(result.fill);
        if (carries) resident_ = std::move(result.resident);
        of.bytes_ += changes.bytes();
    }

    void publish(std::shared_ptr<superbatch> result) {
        const std::scoped_lock lock(mutex_);
        ready_.push_back(std::move(result));
        changed_.notify_all();
    }
    /// Returns false if a stop is requested first.
    bool wait_gathered(const superbatch& of, const std::stop_token& stop) {
        const trace_span span(
            track_.get(), "wait for gather of a superbatch", {.epoch = of.epoch(), .batch = of.first()});
        std::unique_lock lock(mutex_);
        return changed_.wait(lock, stop, [&] { return of.gathered_; });
    }

    superbatch_options options_;
    surroundings around_;
    std::filesystem::path files_;                        // the subdirectory
    std::unique_ptr<trace_track> track_, changes_track_; // null without a trace

    // used by the inspecting thread
    place next_; // next batch to sample
    std::uint64_t number_ = 0;
    bool begun_ = false; // batches_ are those of an epoch
    seed_batches batches_;
    mini_batch_arena arena_;
    std::vector<node_id> resident_; // in the cache after the last superbatch

    // used by the loading thread
    place position_;
    std::shared_ptr<superbatch> loading_;

    bool caches_gather_ = false; // as `before_gathering` leaves them; written in turns and by `halt`

    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    std::deque<std::shared_ptr<superbatch>> ready_;
    superbatch_statistics statistics_;
    std::exception_ptr failure_;
    bool ended_ = false;
    bool in_turn_ = false; // the inspecting thread samples or changes the caches
    bool halted_ = false;  // no further turn begins

    std::jthread thread_; // last: uses the members above
};

} // namespace gneiss
