#include <gneiss/train/training_pipeline.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include "support/refused_threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

namespace test_train_training_pipeline {

using namespace gneiss;

namespace {

/// Represents a batch: it reads the updates applied so far, and its own update depends on them.
struct toy_batch {
    std::uint64_t number = 0;
    std::uint64_t value = 0;
    [[nodiscard]] std::uint64_t bytes() const { return 8; }
};

struct toy_run {
    std::vector<std::uint64_t> computed; // order in which compute saw the batches
    std::uint64_t result = 1;
    pipeline_statistics statistics;
};

/// Trains a number: each update depends on the number that the batch read, so that any change of order shows.
toy_run train(std::uint64_t batches, std::uint64_t per_state, pipeline_options options, std::size_t pool,
    std::uint64_t jitter, pipeline_stages<toy_batch> stages = {}) {
    toy_run run;
    std::mutex row;
    const auto nap = [&](std::uint64_t stage, const toy_batch& b) {
        if (jitter != 0 && mix64(jitter + 31 * b.number + stage) % 4 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(mix64(jitter + b.number + stage) % 200));
    };
    stages.sample = [&](toy_batch& b) { nap(0, b); };
    stages.gather = [&](toy_batch& b) {
        nap(1, b);
        const std::scoped_lock lock(row);
        b.value = run.result;
    };
    stages.to_device = [&](toy_batch& b) { nap(2, b); };
    stages.compute = [&](toy_batch& b) {
        nap(3, b);
        run.computed.push_back(b.number);
        b.value = mix64(b.value + b.number);
    };
    stages.update = [&](toy_batch& b) {
        nap(4, b);
        const std::scoped_lock lock(row);
        run.result += b.value;
    };
    std::vector<std::unique_ptr<toy_batch>> idle;
    for (std::size_t i = 0; i < pool; ++i) idle.push_back(std::make_unique<toy_batch>());
    training_pipeline<toy_batch> pipeline(stages, options, std::move(idle));
    for (std::uint64_t i = 0; i < batches; ++i) {
        auto b = pipeline.take();
        b->number = i;
        const std::uint64_t last = std::min(batches, (i / per_state + 1) * per_state) - 1;
        pipeline.submit(std::move(b), last - i, i % per_state == 0);
    }
    pipeline.drain();
    std::size_t visited = 0;
    pipeline.for_each_idle([&](toy_batch&) { ++visited; });
    CHECK(visited == pool); // after a drain all are idle
    run.statistics = pipeline.statistics();
    return run;
}

std::uint64_t sequential(std::uint64_t batches) {
    std::uint64_t result = 1;
    for (std::uint64_t i = 0; i < batches; ++i) result += mix64(result + i);
    return result;
}

} // namespace

TEST_CASE("staleness 0 equals sequential training, whatever the threads do") {
    for (std::uint64_t jitter = 0; jitter < 6; ++jitter) {
        const toy_run run = train(60, 7, {.staleness = 0, .sample_workers = 3, .queues = {.items = 2}}, 5, jitter);
        CHECK(run.result == sequential(60));
        CHECK(run.statistics.staleness.max() == 0);
        CHECK(run.statistics.batches == 60);
    }
}

TEST_CASE("compute sees the batches in order with any number of sample workers") {
    const toy_run run = train(200, 50, {.staleness = 8, .sample_workers = 4}, 10, 99);
    for (std::uint64_t i = 0; i < 200; ++i) CHECK(run.computed[i] == i);
}

TEST_CASE("no batch misses more updates than the bound") {
    for (const std::uint64_t bound : {1U, 3U, 16U}) {
        const toy_run run =
            train(300, 1000, {.staleness = bound, .sample_workers = 2, .queues = {.items = 8}}, 40, bound);
        CHECK(run.statistics.staleness.total() == 300);
        CHECK(run.statistics.staleness.max() <= bound);
    }
}

TEST_CASE("the deterministic schedule gives the same result at any timing, workers and queues") {
    for (const std::uint64_t bound : {1U, 4U}) {
        const toy_run first = train(100, 13, {.staleness = bound, .deterministic = true}, 8, 0);
        for (std::uint64_t jitter = 1; jitter < 6; ++jitter) {
            const toy_run again = train(100, 13,
                {.staleness = bound, .deterministic = true, .sample_workers = 3, .queues = {.items = 6}}, 12, jitter);
            CHECK(again.result == first.result);
        }
        CHECK(first.statistics.staleness.max() == bound);
        CHECK(first.result != sequential(100));
    }
}

namespace {

/// Trains states of seven batches by `train` with a stage of each scope. Returns what each saw.
struct staged_run {
    toy_run run;
    std::vector<std::uint64_t> states, batches; // numbers of batches
    bool early = true;                          // no batch of a state was gathered before its stage
};
staged_run train_staged(stage before, const pipeline_options& options, std::size_t pool, std::uint64_t jitter) {
    staged_run seen;
    std::atomic<std::uint64_t> begun{0}; // states
    pipeline_stages<toy_batch> more;
    more.own = {{.name = "transfer",
                    .scope = stage_scope::state,
                    .before = before,
                    .run =
                        [&](toy_batch& b) {
                            std::this_thread::sleep_for(std::chrono::microseconds(mix64(jitter + b.number) % 300));
                            seen.states.push_back(b.number);
                            ++begun;
                        }},
        {.name = "look", .before = before, .run = [&](toy_batch& b) {
             seen.batches.push_back(b.number);
             if (begun < b.number / 7 + 1) seen.early = false;
         }}};
    seen.run = train(60, 7, options, pool, jitter, more);
    return seen;
}

} // namespace

TEST_CASE("a stage of state scope runs once for each state, before its first batch passes, and changes no result") {
    for (const stage before : {stage::sample, stage::gather, stage::to_device, stage::compute, stage::update})
        for (std::uint64_t jitter = 0; jitter < 3; ++jitter) {
            CAPTURE(stage_names[static_cast<std::size_t>(before)]);
            const staged_run seen =
                train_staged(before, {.staleness = 0, .sample_workers = 3, .queues = {.items = 2}}, 5, jitter);
            CHECK(seen.run.result == sequential(60));
            CHECK(seen.states == std::vector<std::uint64_t>{0, 7, 14, 21, 28, 35, 42, 49, 56});
            CHECK(seen.batches.size() == 60);
            CHECK(std::ranges::is_sorted(seen.batches));
            CHECK(seen.early);
            REQUIRE(seen.run.statistics.own.size() == 2);
            CHECK(seen.run.statistics.own[0].name == "transfer");
            CHECK(seen.run.statistics.own[0].busy > 0);
            const staged_run fixed = train_staged(before, {.staleness = 4, .deterministic = true}, 8, jitter);
            CHECK(fixed.run.result == train(60, 7, {.staleness = 4, .deterministic = true}, 8, 0).result);
            CHECK(fixed.states == seen.states);
        }
    pipeline_statistics sum = train_staged(stage::gather, {}, 20, 1).run.statistics;
    const double busy = sum.own[0].busy;
    sum += sum;
    CHECK(sum.own.size() == 2);
    CHECK(sum.own[0].busy == doctest::Approx(2 * busy));
}

TEST_CASE("an error in a stage of your own reaches the driving thread and nothing hangs") {
    for (const stage before : {stage::sample, stage::gather, stage::compute, stage::update})
        for (const stage_scope scope : {stage_scope::batch, stage_scope::state}) {
            pipeline_stages<toy_batch> more;
            more.own = {{.name = "transfer", .scope = scope, .before = before, .run = [](toy_batch& b) {
                             if (b.number == 14) throw error(errc::not_finite, "planted");
                         }}};
            CHECK_THROWS_WITH_AS((void)train(60, 7, {.staleness = 2}, 5, 0, more), "planted", error);
        }
}

TEST_CASE("after a drain the wait for the first batch counts from the declared start of work, not from the drain") {
    const auto compute = static_cast<std::size_t>(stage::compute);
    pipeline_stages<toy_batch> stages;
    stages.sample = stages.gather = stages.compute = stages.update = [](toy_batch&) {};
    std::vector<std::unique_ptr<toy_batch>> idle;
    idle.push_back(std::make_unique<toy_batch>());
    training_pipeline<toy_batch> pipeline(stages, {}, std::move(idle));
    using namespace std::chrono_literals;
    std::this_thread::sleep_for(300ms); // outside of any stage
    const auto resumed = std::chrono::steady_clock::now();
    pipeline.resume();
    std::this_thread::sleep_for(50ms); // a state is loaded
    pipeline.submit(pipeline.take(), 0);
    pipeline.drain();
    const std::chrono::duration<double> worked = std::chrono::steady_clock::now() - resumed;
    const double waited = pipeline.statistics().wait_seconds[compute];
    CHECK(waited >= .05);
    CHECK(waited <= worked.count());
}

TEST_CASE("an error in any stage reaches the driving thread and nothing hangs") {
    for (int failing = 0; failing < 4; ++failing) {
        pipeline_stages<toy_batch> stages;
        const auto make = [&](int index) {
            return [index, failing](toy_batch& b) {
                if (index == failing && b.number == 5) throw error(errc::not_finite, "planted");
            };
        };
        stages.sample = make(0);
        stages.gather = make(1);
        stages.compute = make(2);
        stages.update = make(3);
        std::vector<std::unique_ptr<toy_batch>> idle;
        for (int i = 0; i < 4; ++i) idle.push_back(std::make_unique<toy_batch>());
        training_pipeline<toy_batch> pipeline(stages, {}, std::move(idle));
        const auto drive = [&] {
            for (std::uint64_t i = 0; i < 50; ++i) {
                auto b = pipeline.take();
                b->number = i;
                pipeline.submit(std::move(b), 0);
            }
            pipeline.drain();
        };
        CHECK_THROWS_WITH_AS(drive(), "planted", error);
    }
}

TEST_CASE("a pipeline whose thread is refused ends those that it started and reports it") {
    int granted = 0;
    for (bool made = false; !made; ++granted) {
        CAPTURE(granted);
        const auto nothing = [](toy_batch&) {};
        std::vector<std::unique_ptr<toy_batch>> idle;
        idle.push_back(std::make_unique<toy_batch>());
        const gneiss::test::grant_threads some(granted);
        try {
            training_pipeline<toy_batch> pipeline(
                {nothing, nothing, nothing, nothing, nothing, nothing}, {.sample_workers = 3}, std::move(idle));
            made = true;
        } catch (const std::system_error& e) {
            CHECK(e.code() == std::errc::resource_unavailable_try_again);
        }
        CHECK(some.refused() == (made ? 0 : 1));
    }
    CHECK(granted == 9); // 0 to 8: three workers sample, and each other stage has one
}

} // namespace test_train_training_pipeline
