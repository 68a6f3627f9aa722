#include <gneiss/train/training_pipeline.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include "support/refused_threads.hpp"

#include <chrono>
#include <system_error>
#include <thread>

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
toy_run train(
    std::uint64_t batches, std::uint64_t per_state, pipeline_options options, std::size_t pool, std::uint64_t jitter) {
    toy_run run;
    std::mutex row;
    const auto nap = [&](std::uint64_t stage, const toy_batch& b) {
        if (jitter != 0 && mix64(jitter + 31 * b.number + stage) % 4 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(mix64(jitter + b.number + stage) % 200));
    };
    pipeline_stages<toy_batch> stages;
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
        pipeline.submit(std::move(b), last - i);
    }
    pipeline.drain();
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
