// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/train/concepts.hpp>
#include <gneiss/train/queue.hpp>
#include <gneiss/train/staleness.hpp>

namespace gneiss {

/// The stages of Marius' pipeline (OSDI'21, §3). *Load* is two here, since sampling needs no row and so no waiting for
/// earlier updates, while gathering does.
enum class stage : std::uint8_t { sample, gather, to_device, compute, to_host, update };

inline constexpr std::size_t stage_count = 6;
inline constexpr std::array<const char*, stage_count> stage_names{
    "sample", "gather", "to_device", "compute", "to_host", "update"};

/// What each stage does to a batch. An empty transfer is skipped, with its thread and queue: the CPU backend has none.
template <class Batch>
struct pipeline_stages {
    using function = std::function<void(Batch&)>;

    function sample;    ///< edges, negatives, local ids: a pure function of the batch number; several workers
    function admit;     ///< optional: waits for room for the rows; its time counts as waiting for gather
    function gather;    ///< rows of the batch's nodes
    function to_device; ///< optional
    function compute;   ///< gradients; steps the relation parameters, so one worker, in order
    function to_host;   ///< optional
    function update;    ///< steps the node rows
};

struct pipeline_options {
    std::uint64_t staleness = 16;    ///< batches that may be unapplied when a batch gathers; 0: synchronous
    bool deterministic = false;      ///< the same results at any staleness, by a fixed schedule
    std::size_t sample_workers = 1;
    queue_capacity queues{};         ///< of each queue
};

/// Times and counts of a pipeline. Merges by addition.
struct pipeline_statistics {
    std::array<double, stage_count> busy_seconds{};
    std::array<double, stage_count> wait_seconds{}; ///< waiting for the stage before, or for staleness
    staleness_histogram staleness;                  ///< of batches
    std::uint64_t batches = 0;

    pipeline_statistics& operator+=(const pipeline_statistics& other) noexcept {
        for (std::size_t i = 0; i < stage_count; ++i) {
            busy_seconds[i] += other.busy_seconds[i];
            wait_seconds[i] += other.wait_seconds[i];
        }
        staleness += other.staleness;
        batches += other.batches;
        return *this;
    }
};

/// Runs batches through the stages, each in threads of its own, with bounded queues between and a bounded staleness.
///
/// The driving thread submits batches in the order of the plan and takes finished ones back:
///
///     while (…) { auto b = pipeline.take(); *b = …; pipeline.submit(std::move(b), first_of_state, last_of_state); }
///     pipeline.drain();
///
/// Compute and update see the batches in order whatever the number of sample workers. The batches given at construction
/// are all there are: their number bounds what is in flight.
/// Thread-safety: one driving thread. Errors of a stage close the pipeline and are rethrown by the driving calls.
template <class Batch>
class training_pipeline {
    static_assert(pipeline_item<Batch>, "training_pipeline: Batch must be a gneiss::pipeline_item, see gneiss/train/concepts.hpp");

public:
    /// Throws errc::invalid_argument for too few batches; std::system_error where the system refuses a thread.
    training_pipeline(pipeline_stages<Batch> stages, pipeline_options options, std::vector<std::unique_ptr<Batch>> batches)
        : stages_(std::move(stages)), options_(options), gate_({.updates = options.staleness, .exact = options.deterministic}),
          idle_(std::move(batches)) {
        if (idle_.empty()) throw error(errc::invalid_argument, "a pipeline needs at least one batch");
        if (options.deterministic) { // batch k waits for batch k + staleness to gather: all between must find room
            if (idle_.size() <= options.staleness)
                throw error(errc::invalid_argument, "a deterministic staleness of " + std::to_string(options.staleness) +
                                                        " needs one batch more than that");
            options.queues = {.items = options.staleness + 1};
        }
        std::vector<stage> chain{stage::sample, stage::gather};
        if (stages_.to_device) chain.push_back(stage::to_device);
        chain.push_back(stage::compute);
        if (stages_.to_host) chain.push_back(stage::to_host);
        chain.push_back(stage::update);
        for (std::size_t i = 0; i < chain.size(); ++i) queues_.push_back(std::make_unique<queue>(options.queues));
        try {
            for (std::size_t i = 0; i < chain.size(); ++i) {
                const std::size_t workers = chain[i] == stage::sample ? std::max<std::size_t>(options.sample_workers, 1) : 1;
                queue* const out = i + 1 < chain.size() ? queues_[i + 1].get() : nullptr;
                for (std::size_t w = 0; w < workers; ++w)
                    threads_.emplace_back([this, s = chain[i], in = queues_[i].get(), out] { work(s, *in, out); });
            }
        } catch (...) { // those that were started wait for batches
            stop(std::current_exception());
            throw;
        }
    }

    ~training_pipeline() { stop(destroyed()); }

    training_pipeline(const training_pipeline&) = delete;
    training_pipeline& operator=(const training_pipeline&) = delete;

    /// A batch to fill; waits until one has left the pipeline.
    [[nodiscard]] std::unique_ptr<Batch> take() {
        std::unique_lock lock(mutex_);
        returned_.wait(lock, [&] { return error_ || !idle_.empty(); });
        if (error_) std::rethrow_exception(error_);
        auto batch = std::move(idle_.back());
        idle_.pop_back();
        return batch;
    }

    /// From now on stages without a batch wait for one, and say so: work has begun, though no batch may be ready yet.
    void resume() noexcept {
        if (!drained_) return;
        resumed_at_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
        drained_ = false;
    }

    /// Hands the next batch in. `remaining`: how many batches follow it before rows may be swapped (0 for the last of a
    /// state); used by the deterministic schedule only.
    void submit(std::unique_ptr<Batch> batch, std::uint64_t remaining) {
        resume();
        const std::uint64_t number = submitted_++;
        ticket t{number, fence_, number + remaining, std::move(batch)};
        if (remaining == 0) fence_ = submitted_;
        const std::uint64_t bytes = t.batch->bytes();
        if (!queues_.front()->push(number, std::move(t), bytes)) rethrow();
    }

    /// Gives an unused batch back.
    void put_back(std::unique_ptr<Batch> batch) {
        const std::scoped_lock lock(mutex_);
        idle_.push_back(std::move(batch));
        returned_.notify_one();
    }

    /// Waits until everything submitted is applied.
    void drain() {
        if (!gate_.wait_applied(submitted_)) rethrow();
        fence_ = submitted_;
        drained_ = true;
    }

    /// Gives up for `why`: when this returns no stage is at work, what was in flight is dropped, and every later call
    /// throws `why`. For a driving thread that leaves by an exception, with all that the stages refer to.
    void stop(const std::exception_ptr& why) {
        fail(why);
        threads_.clear(); // joins
    }

    /// Stops when the pipeline gives up: for stages that wait for others than the queues.
    [[nodiscard]] std::stop_token failed() const noexcept { return failed_.get_token(); }

    /// Everything so far; may be asked for while batches run.
    [[nodiscard]] pipeline_statistics statistics() const {
        pipeline_statistics sum;
        for (std::size_t i = 0; i < stage_count; ++i) {
            sum.busy_seconds[i] = static_cast<double>(busy_[i].load(std::memory_order_relaxed)) * 1e-9;
            sum.wait_seconds[i] = static_cast<double>(wait_[i].load(std::memory_order_relaxed)) * 1e-9;
        }
        const std::scoped_lock lock(mutex_);
        sum.staleness = staleness_;
        sum.batches = gate_.applied();
        return sum;
    }

private:
    struct ticket {
        std::uint64_t number = 0;
        std::uint64_t fence = 0; // first batch after the last border
        std::uint64_t last = 0;  // last batch before the next border
        std::unique_ptr<Batch> batch;
    };
    using queue = ordered_queue<ticket>;
    using clock = std::chrono::steady_clock;

    void work(stage s, queue& in, queue* out) {
        try {
            for (;;) {
                std::chrono::nanoseconds waited{0};
                std::optional<ticket> next = in.pop(&waited);
                add(wait_, s, since_resumed(waited));
                if (!next || !step(s, *next)) break;
                const std::uint64_t number = next->number, bytes = next->batch->bytes();
                if (out == nullptr)
                    put_back(std::move(next->batch));
                else if (!out->push(number, std::move(*next), bytes))
                    break;
            }
            if (out != nullptr) out->close();
        } catch (...) {
            fail(std::current_exception());
        }
    }

    /// One stage of one batch. False when the pipeline is closing.
    bool step(stage s, ticket& t) {
        const auto& function = function_of(s);
        auto since = clock::now();
        if (s == stage::gather) {
            std::uint64_t missed = 0;
            if (!gate_.begin_read(t.number, t.fence, &missed)) return false;
            if (stages_.admit) stages_.admit(*t.batch);
            since = waited_since(s, since);
            function(*t.batch);
            gate_.end_read(t.number);
            const std::scoped_lock lock(mutex_);
            staleness_.add(missed);
        } else if (s == stage::update) {
            if (!gate_.begin_update(t.number, t.last)) return false;
            since = waited_since(s, since);
            function(*t.batch);
            gate_.end_update(t.number);
        } else {
            function(*t.batch);
        }
        add(busy_, s, clock::now() - since);
        return true;
    }

    /// The part of a wait that ends now in which there was work: not the time between a drain and what `resume`s.
    [[nodiscard]] std::chrono::nanoseconds since_resumed(std::chrono::nanoseconds waited) const {
        const clock::time_point resumed{clock::duration(resumed_at_.load(std::memory_order_relaxed))};
        return std::min<std::chrono::nanoseconds>(waited, clock::now() - resumed);
    }

    clock::time_point waited_since(stage s, clock::time_point since) {
        const auto now = clock::now();
        add(wait_, s, now - since);
        return now;
    }

    [[nodiscard]] const typename pipeline_stages<Batch>::function& function_of(stage s) const noexcept {
        switch (s) {
        case stage::sample: return stages_.sample;
        case stage::gather: return stages_.gather;
        case stage::to_device: return stages_.to_device;
        case stage::compute: return stages_.compute;
        case stage::to_host: return stages_.to_host;
        case stage::update: break;
        }
        return stages_.update;
    }

    using counters = std::array<std::atomic<std::int64_t>, stage_count>;
    static void add(counters& to, stage s, std::chrono::nanoseconds time) noexcept {
        to[static_cast<std::size_t>(s)].fetch_add(time.count(), std::memory_order_relaxed);
    }

    [[nodiscard]] static std::exception_ptr destroyed() noexcept {
        try {
            throw error(errc::canceled, "the pipeline was destroyed");
        } catch (...) { // or what memory is short of
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
    std::vector<std::unique_ptr<queue>> queues_; // queues_[i] feeds the i-th stage of the chain
    std::uint64_t submitted_ = 0;                // driving thread only
    std::uint64_t fence_ = 0;                    // driving thread only
    bool drained_ = true;                        // driving thread only
    std::atomic<clock::rep> resumed_at_{0};
    counters busy_{}, wait_{};

    mutable std::mutex mutex_;
    std::condition_variable returned_;
    std::vector<std::unique_ptr<Batch>> idle_;
    staleness_histogram staleness_;
    std::exception_ptr error_;
    std::stop_source failed_;

    std::vector<std::jthread> threads_;
};

} // namespace gneiss
