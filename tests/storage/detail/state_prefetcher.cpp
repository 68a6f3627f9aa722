#include <gneiss/storage/detail/state_prefetcher.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

namespace test_storage_detail_state_prefetcher {

using namespace gneiss;

namespace {

using namespace std::chrono_literals;

/// Numbers of the states whose objects are alive.
struct registry {
    std::mutex mutex{};
    std::set<std::uint32_t> alive{};
    bool apart = false; ///< two of non-consecutive states were alive

    void add(std::uint32_t state) {
        const std::scoped_lock lock(mutex);
        alive.insert(state);
        apart |= *alive.rbegin() - *alive.begin() > 1;
    }
    void remove(std::uint32_t state) {
        const std::scoped_lock lock(mutex);
        alive.erase(state);
    }
};

struct thing {
    thing(registry& of, std::uint32_t number) : all(of), state(number) { all.add(state); }
    ~thing() { all.remove(state); }
    thing(const thing&) = delete;
    thing& operator=(const thing&) = delete;

    registry& all;
    std::uint32_t state;
};

epoch_plan numbered(std::uint32_t states) {
    epoch_plan plan(states);
    for (std::uint32_t s = 0; s < states; ++s) plan[s].resident = {s};
    return plan;
}

using prefetcher = detail::state_prefetcher<thing>;

std::function<std::unique_ptr<thing>(const buffer_state&)> maker(registry& all) {
    return [&all](const buffer_state& s) { return std::make_unique<thing>(all, s.resident[0]); };
}

} // namespace

TEST_CASE("the third state waits for the last user of the first, even if the second is released") {
    registry all;
    prefetcher loader(maker(all));
    loader.begin(numbered(4), 0);
    auto first = loader.acquire(0, {});
    auto second = loader.acquire(1, {});
    second.reset();
    std::this_thread::sleep_for(20ms);
    CHECK_FALSE(loader.ready(2));
    first.reset();
    CHECK(loader.acquire(2, {})->state == 2);
    CHECK(loader.acquire(3, {})->state == 3);
    CHECK_FALSE(all.apart);
}

TEST_CASE("at most two objects are alive, of consecutive states, however long users hold them") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        CAPTURE(seed);
        registry all;
        prefetcher loader(maker(all));
        random_stream draw(random_key(seed, random_domain::user));
        for (int epoch = 0; epoch < 2; ++epoch) {
            loader.begin(numbered(12), 0);
            std::vector<std::jthread> users; // two per state
            for (std::uint32_t s = 0; s < 12; ++s) {
                const auto held = loader.acquire(s, {});
                CHECK(held->state == s);
                for (int user = 0; user < 2; ++user)
                    users.emplace_back([copy = held, for_us = draw.below(400)]() mutable {
                        std::this_thread::sleep_for(std::chrono::microseconds(for_us));
                        copy.reset();
                    });
            }
            users.clear();
            CHECK_FALSE(all.apart);
        }
    }
}

TEST_CASE("objects of an abandoned plan are destroyed before the next plan makes any") {
    for (int i = 0; i < 50; ++i) {
        registry all;
        prefetcher loader(maker(all));
        loader.begin(numbered(5), 0); // its states 0 and 1 are made, or about to be
        std::this_thread::sleep_for(std::chrono::microseconds(20 * (i % 10)));
        loader.begin(numbered(5), 3);
        CHECK(loader.acquire(3, {})->state == 3);
        CHECK(loader.acquire(4, {})->state == 4);
        CHECK_FALSE(all.apart);
        loader.forget([&] { CHECK(all.alive.empty()); });
    }
}

TEST_CASE("an object that does not fit together with the previous one waits until none is alive") {
    registry all;
    prefetcher loader(maker(all), [](const buffer_state& s) { return s.resident[0] != 1; });
    loader.begin(numbered(3), 0);
    auto first = loader.acquire(0, {});
    std::this_thread::sleep_for(10ms);
    CHECK_FALSE(loader.ready(1));
    first.reset();
    const auto second = loader.acquire(1, {});
    CHECK(loader.acquire(2, {})->state == 2);
}

TEST_CASE("states of a plan are made one ahead, in order") {
    registry all;
    std::atomic<std::uint64_t> made = 0;
    prefetcher loader(maker(all));
    const auto state_of = [&](std::uint64_t index) {
        CHECK(index == 7 + made++);
        return buffer_state{{static_cast<partition_id>(index)}, {}};
    };
    constexpr std::uint64_t states = std::uint64_t{1} << 40;
    loader.begin(states, state_of, 7);
    for (std::uint64_t s = 7; s < 107; ++s) {
        CHECK(loader.acquire(s, {})->state == s);
        CHECK(made <= s - 7 + 3); // two are alive, and one is checked for a fit
    }
    CHECK_FALSE(loader.ready(states - 1));
    CHECK(loader.ready(states));
    CHECK_FALSE(all.apart);
}

} // namespace test_storage_detail_state_prefetcher
