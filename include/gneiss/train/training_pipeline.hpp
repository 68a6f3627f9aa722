// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/core/trace_recorder.hpp>
#include <gneiss/train/concepts.hpp>
#include <gneiss/train/queue.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

/// The stages of Marius' pipeline (OSDI'21, §3). *Load* is split in two: sampling needs no rows, so it need not wait
/// for earlier updates, while gathering must.
enum class stage : std::uint8_t { sample, gather, to_device, compute, to_host, update };

inline constexpr std::size_t stage_count = 6; ///< number of stages
/// Names of the stages, in order.
inline constexpr std::array<const char*, stage_count> stage_names{
    "sample", "gather", "to_device", "compute", "to_host", "update"};

/// Frequency of a stage.
enum class stage_scope : std::uint8_t {
    batch, ///< with every batch
    state  ///< with the first batch of each state, before it or any later one goes on to the next stage
};

/// A stage of your own, as a value. It has a thread between two of the stages above; batches pass it in order.
///
///     const pipeline_stage<my_batch> transfer{.name = "transfer", .scope = stage_scope::state,
///         .before = stage::sample, .run = [&](my_batch& first) { to_device(*first.work); }};
///
/// While it runs with the first batch of a state, batches of the state before are in later stages.
template <class Batch>
struct pipeline_stage {
    const char* name = "";                  ///< of its track and spans: a literal, not copied
    stage_scope scope = stage_scope::batch; ///< how often it runs
    stage before = stage::gather;           ///< the stage that follows it, or would if the pipeline had it
    std::function<void(Batch&)> run;        ///< its work; any exception ends the pipeline
};

/// The function of each stage. An empty transfer is skipped, with its thread and queue: the CPU backend has none.
template <class Batch>
struct pipeline_stages {
    using function = std::function<void(Batch&)>; ///< function of a stage

    function sample;      ///< edges, negatives, local ids: a pure function of the batch number; several workers
    function gather;      ///< rows of the batch's nodes
    function to_device{}; ///< optional
    function compute;     ///< gradients; steps the relation parameters, so one worker, in order
    function to_host{};   ///< optional
    function update;      ///< steps the node rows
    function admit{}; ///< optional: waits for room for the rows before they are gathered; its time counts as waiting
                      ///< for gather
    std::vector<pipeline_stage<Batch>> own{}; ///< stages of your own; those before one stage run in this order
};

/// Options of a pipeline.
struct pipeline_options {
    std::uint64_t staleness = 16;   ///< maximum updates that a batch's gather may miss; 0: synchronous
    bool deterministic = false;     ///< fixed schedule: the same results in every run, at any staleness
    bool drains_states = false;     ///< batches of a state begin when all of the state before have ended
    std::size_t sample_workers = 1; ///< threads that sample
    queue_capacity queues{};        ///< capacity of each queue
    /// gets a track per thread, with spans of stages and of waits; outlives the pipeline
    trace_recorder* trace = nullptr;
};

/// Times of a stage of your own, in seconds.
struct own_stage_seconds {
    std::string name; ///< of the stage
    double busy = 0;  ///< work
    double wait = 0;  ///< waiting for the stage before
    double room = 0;  ///< waiting for room before the next stage
};

/// Times and counts of a pipeline. Merges by addition.
struct pipeline_statistics {
    std::array<double, stage_count> busy_seconds{}; ///< work of each stage
    std::array<double, stage_count> wait_seconds{}; ///< waiting for the stage before, or for staleness
    std::array<double, stage_count> gate_seconds{}; ///< part of wait_seconds that was for staleness
    std::array<double, stage_count> room_seconds{}; ///< waiting for room before the next stage
    std::vector<own_stage_seconds> own;             ///< stages of your own, in their order; merged by name
    staleness_histogram staleness;                  ///< per batch
    std::uint64_t batches = 0;                      ///< batches that passed all stages

    pipeline_statistics& operator+=(const pipeline_statistics& other) {
        for (std::size_t i = 0; i < stage_count; ++i) {
            busy_seconds[i] += other.busy_seconds[i];
            wait_seconds[i] += other.wait_seconds[i];
            gate_seconds[i] += other.gate_seconds[i];
            room_seconds[i] += other.room_seconds[i];
        }
        for (const own_stage_seconds& of : other.own) {
            const auto mine = std::ranges::find(own, of.name, &own_stage_seconds::name);
            if (mine == own.end()) {
                own.push_back(of);
                continue;
            }
            mine->busy += of.busy;
            mine->wait += of.wait;
            mine->room += of.room;
        }
        staleness += other.staleness;
        batches += other.batches;
        return *this;
    }
};

/// Runs batches through the stages, each in its own threads, with bounded queues between them and a bounded staleness.
///
/// The driving thread submits batches in the order of the plan and takes back finished ones:
///
///     while (…) { auto b = pipeline.take(); *b = …; pipeline.submit(std::move(b), remaining_in_state); }
///     pipeline.drain();
///
/// Compute and update process the batches in order, for any number of sample workers. The pipeline uses only the
/// batches given at construction: their number bounds those in flight.
/// Thread-safety: one driving thread. Errors of a stage close the pipeline, and the driving calls rethrow them.
///
/// From examples/15_pipeline.cpp:
/// \snippet 15_pipeline.cpp pipeline
template <class Batch>
class training_pipeline {
    static_assert(pipeline_item<Batch>,
        "training_pipeline: Batch must be a gneiss::pipeline_item, see gneiss/train/concepts.hpp");

public:
    /// Throws errc::invalid_argument for too few batches; std::system_error if a thread cannot be started.
    training_pipeline(
        pipeline_stages<Batch> stages, pipeline_options options, std::vector<std::unique_ptr<Batch>> batches)
        : stages_(std::move(stages)),
          options_(options),
          gate_({.updates = options.staleness, .exact = options.deterministic}),
          batches_(batches.size()),
          idle_(std::move(batches)) {
        if (idle_.empty()) throw error(errc::invalid_argument, "a pipeline needs at least one batch");
        if (options
                .deterministic) { // batch k waits for batch k + staleness to gather: there must be room for all between
            if (idle_.size() <= options.staleness)
                throw error(errc::invalid_argument,
                    "a deterministic staleness of " + std::to_string(options.staleness) +
                        " needs one batch more than that");
            options.queues = {.items = options.staleness + 1};
        }
        make_chain();
        for (std::size_t i = 0; i < chain_.size(); ++i) queues_.push_back(std::make_unique<queue>(options.queues));
        try {
            for (std::size_t i = 0; i < chain_.size(); ++i) {
                const std::size_t workers =
                    chain_[i].known == stage::sample ? std::max<std::size_t>(options.sample_workers, 1) : 1;
                const place at{.here = chain_[i],
                    .in = *queues_[i],
                    .out = i + 1 < chain_.size() ? queues_[i + 1].get() : nullptr,
                    .wait_name = i == 0 ? "wait for work" : chain_[i - 1].wait_name,
                    .room_name = i + 1 < chain_.size() ? chain_[i + 1].room_name : ""};
                const std::string name = chain_[i].name;
                for (std::size_t w = 0; w < workers; ++w)
                    threads_.emplace_back(
                        [this, at,
                            track = open_track(options.trace,
                                workers == 1 ? name : name + " " + std::to_string(w + 1))] { work(at, track.get()); });
            }
        } catch (...) { // threads already started wait for batches
            stop(std::current_exception());
            throw;
        }
    }

    ~training_pipeline() { stop(destroyed()); }

    training_pipeline(const training_pipeline&) = delete;
    training_pipeline& operator=(const training_pipeline&) = delete;

    /// Returns a batch to fill; waits until one is free.
    [[nodiscard]] std::unique_ptr<Batch> take() {
        std::unique_lock lock(mutex_);
        returned_.wait(lock, [&] { return error_ || !idle_.empty(); });
        if (error_) std::rethrow_exception(error_);
        auto batch = std::move(idle_.back());
        idle_.pop_back();
        return batch;
    }

    /// Starts counting waits of idle stages: work has begun, though no batch may be ready yet.
    void resume() noexcept {
        if (!drained_) return;
        resumed_at_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
        drained_ = false;
    }

    /// Submits the next batch. `remaining`: number of batches that follow it before rows may be swapped (0 for the last
    /// of a state); used by the deterministic schedule only. `begins_state`: stages of state scope run with it.
    void submit(std::unique_ptr<Batch> batch, std::uint64_t remaining, bool begins_state = false) {
        resume();
        const std::uint64_t number = submitted_++;
        ticket t{number, fence_, number + remaining, begins_state, std::move(batch)};
        if (remaining == 0) fence_ = submitted_;
        const std::uint64_t bytes = t.batch->bytes();
        if (!queues_.front()->push(number, std::move(t), bytes)) rethrow();
    }

    /// Returns an unused batch.
    void put_back(std::unique_ptr<Batch> batch) {
        const std::scoped_lock lock(mutex_);
        idle_.push_back(std::move(batch));
        returned_.notify_one();
    }

    /// Waits until all submitted batches are applied.
    void drain() {
        if (!gate_.wait_applied(submitted_)) rethrow();
        fence_ = submitted_;
        drained_ = true;
    }

    /// Calls `visit` with each batch: all of them, after `drain`; the driving thread holds none.
    template <class Visit>
    void for_each_idle(Visit&& visit) {
        std::unique_lock lock(mutex_);
        returned_.wait(lock, [&] { return error_ || idle_.size() == batches_; }); // the last one is on its way
        for (const std::unique_ptr<Batch>& batch : idle_) visit(*batch);
    }

    /// Stops the pipeline because of `why`. On return no stage is running, the batches in flight are dropped, and every
    /// later call throws `why`. Call it when the driving thread leaves by an exception and takes with it objects that
    /// the stages use.
    void stop(const std::exception_ptr& why) {
        fail(why);
        threads_.clear(); // joins
    }

    /// Returns a token that stops when the pipeline fails: for stages that wait on something other than the queues.
    [[nodiscard]] std::stop_token failed() const noexcept { return failed_.get_token(); }

    /// Returns the totals so far; may be called while batches run.
    [[nodiscard]] pipeline_statistics statistics() const {
        const auto seconds = [](const counter& of) {
            return static_cast<double>(of.load(std::memory_order_relaxed)) * 1e-9;
        };
        pipeline_statistics sum;
        for (const placed_stage& s : chain_) {
            const double busy = seconds(s.busy), wait = seconds(s.wait), room = seconds(s.room);
            if (!s.known) {
                sum.own.push_back({s.name, busy, wait, room});
                continue;
            }
            const auto i = static_cast<std::size_t>(*s.known);
            sum.busy_seconds[i] = busy;
            sum.wait_seconds[i] = wait;
            sum.gate_seconds[i] = seconds(s.gate);
            sum.room_seconds[i] = room;
        }
        const std::scoped_lock lock(mutex_);
        sum.staleness = staleness_;
        sum.batches = gate_.applied();
        return sum;
    }

private:
    struct ticket {
        std::uint64_t number = 0;
        std::uint64_t fence = 0; // first batch after the last fence
        std::uint64_t last = 0;  // last batch before the next fence
        bool begins_state = false;
        std::unique_ptr<Batch> batch;
    };
    using queue = ordered_queue<ticket>;
    using clock = std::chrono::steady_clock;

    static constexpr std::array<const char*, stage_count> wait_names{"wait for sample", "wait for gather",
        "wait for to_device", "wait for compute", "wait for to_host", "wait for update"};
    static constexpr std::array<const char*, stage_count> room_names{"wait for room before sample",
        "wait for room before gather", "wait for room before to_device", "wait for room before compute",
        "wait for room before to_host", "wait for room before update"};

    using counter = std::atomic<std::int64_t>; // nanoseconds

    /// A stage in the chain, one of the library's or one of the caller's.
    struct placed_stage {
        const char* name;
        stage_scope scope;
        std::optional<stage> known; // none: the caller's
        const std::function<void(Batch&)>& run;
        const char *wait_name, *room_name; // of waits for it
        counter busy{0}, wait{0}, gate{0}, room{0};

        placed_stage(const char* of, stage_scope often, std::optional<stage> which,
            const std::function<void(Batch&)>& work, const char* wait_for, const char* room_for)
            : name(of),
              scope(often),
              known(which),
              run(work),
              wait_name(wait_for),
              room_name(room_for) {}
    };

    void make_chain() {
        const std::array<const std::function<void(Batch&)>*, stage_count> library{
            &stages_.sample, &stages_.gather, &stages_.to_device, &stages_.compute, &stages_.to_host, &stages_.update};
        for (std::size_t i = 0; i < stage_count; ++i) {
            const auto s = static_cast<stage>(i);
            for (const pipeline_stage<Batch>& own : stages_.own)
                if (own.before == s)
                    chain_.emplace_back(own.name, own.scope, std::nullopt, own.run, "wait for a stage of your own",
                        "wait for room before a stage of your own");
            if ((s == stage::to_device || s == stage::to_host) && !*library[i]) continue;
            chain_.emplace_back(stage_names[i], stage_scope::batch, s, *library[i], wait_names[i], room_names[i]);
        }
    }

    /// Position of a thread in the chain of stages.
    struct place {
        placed_stage& here;
        queue& in;
        queue* out; // null after the last
        const char *wait_name, *room_name;
    };

    void work(const place& at, trace_track* track) {
        try {
            for (;;) {
                std::chrono::nanoseconds waited{0}, for_room{0};
                std::optional<ticket> next = at.in.pop(&waited);
                add(at.here.wait, waited = since_resumed(waited));
                record_wait(track, at.wait_name, waited);
                if (!next || !step(at.here, *next, track)) break;
                const std::uint64_t number = next->number, bytes = next->batch->bytes();
                if (at.out == nullptr) {
                    put_back(std::move(next->batch));
                } else {
                    if (!at.out->push(number, std::move(*next), bytes, &for_room)) break;
                    add(at.here.room, for_room);
                    record_wait(track, at.room_name, for_room);
                }
            }
            if (at.out != nullptr) at.out->close();
        } catch (...) {
            fail(std::current_exception());
        }
    }

    /// Runs one stage of one batch. Returns false if the pipeline is closing.
    bool step(placed_stage& s, ticket& t, trace_track* track) {
        if (s.scope == stage_scope::state && !t.begins_state) return true;
        if constexpr (traced_item<Batch>) {
            t.batch->trace = track;
            t.batch->moved_bytes = trace_arguments::none;
        }
        auto since = clock::now();
        if (s.known == stage::gather) {
            std::uint64_t missed = 0;
            if (!gate_.begin_read(t.number, t.fence, &missed)) return false;
            if (stages_.admit) stages_.admit(*t.batch);
            since = waited_since(s, since, track, "wait for update");
            s.run(*t.batch);
            gate_.end_read(t.number);
            const std::scoped_lock lock(mutex_);
            staleness_.add(missed);
        } else if (s.known == stage::update) {
            if (!gate_.begin_update(t.number, t.last)) return false;
            since = waited_since(s, since, track, "wait for gather of later batches");
            s.run(*t.batch);
            gate_.end_update(t.number);
        } else {
            s.run(*t.batch);
        }
        const auto now = clock::now();
        add(s.busy, now - since);
        if (track != nullptr) {
            trace_arguments with;
            if constexpr (traced_item<Batch>)
                with = t.batch->traced();
            else
                with.batch = t.number;
            track->add(s.name, since, now, with);
        }
        return true;
    }

    /// Records a wait of that length that has just ended.
    static void record_wait(trace_track* track, const char* name, std::chrono::nanoseconds waited) noexcept {
        if (track != nullptr && waited.count() > 0) track->add_wait(name, clock::now() - waited);
    }

    /// Returns the part of a wait ending now that falls after `resume`: not the time between a drain and the next
    /// submit.
    [[nodiscard]] std::chrono::nanoseconds since_resumed(std::chrono::nanoseconds waited) const {
        const clock::time_point resumed{clock::duration(resumed_at_.load(std::memory_order_relaxed))};
        return std::min<std::chrono::nanoseconds>(waited, clock::now() - resumed);
    }

    static clock::time_point waited_since(
        placed_stage& s, clock::time_point since, trace_track* track, const char* name) {
        const auto now = clock::now();
        add(s.wait, now - since);
        add(s.gate, now - since);
        if (track != nullptr) track->add_wait(name, since);
        return now;
    }

    static void add(counter& to, std::chrono::nanoseconds time) noexcept {
        to.fetch_add(time.count(), std::memory_order_relaxed);
    }

    [[nodiscard]] static std::exception_ptr destroyed() noexcept {
        try {
            throw error(errc::canceled, "the pipeline was destroyed");
        } catch (...) { // or out of memory
            return std::current_exception();
        }
    }
    void fail(const std::exception_ptr& why) {
        {
            const std::scoped_lock lock(mutex_);
            if (!error_) error_ = why;
            returned_.notify_all();
        }
        for (const auto& q : queues_) q->close(why);
        gate_.close();
        failed_.request_stop();
    }
    [[noreturn]] void rethrow() {
        const std::scoped_lock lock(mutex_);
        if (error_) std::rethrow_exception(error_);
        throw error(errc::closed, "the pipeline is closed");
    }

    pipeline_stages<Batch> stages_;
    pipeline_options options_;
    staleness_gate gate_;
    std::deque<placed_stage> chain_;             // of stages_, whose functions it refers to
    std::vector<std::unique_ptr<queue>> queues_; // queues_[i] feeds the i-th stage of the chain
    std::uint64_t submitted_ = 0;                // driving thread only
    std::uint64_t fence_ = 0;                    // driving thread only
    bool drained_ = true;                        // driving thread only
    std::atomic<clock::rep> resumed_at_{0};

    mutable std::mutex mutex_;
    std::condition_variable returned_;
    std::size_t batches_; ///< all
    std::vector<std::unique_ptr<Batch>> idle_;
    staleness_histogram staleness_;
    std::exception_ptr error_;
    std::stop_source failed_;

    std::vector<std::jthread> threads_;
};

} // namespace gneiss
