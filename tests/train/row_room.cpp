#include <gneiss/train/row_room.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/core/random.hpp>

namespace test_train_row_room {

using namespace gneiss;

TEST_CASE("concurrent batches stay within the limit, and the largest runs alone") {
    constexpr std::uint64_t room_bytes = 1000;
    row_room room(room_bytes);
    std::mutex mutex;
    std::vector<row_memory> held;
    std::uint64_t sum = 0, most = 0, alone = 0;
    std::atomic<bool> over = false;
    std::jthread applies([&] { // in the order of the batches
        while (true) {
            row_memory first;
            {
                const std::scoped_lock lock(mutex);
                if (held.empty() && over) return;
                if (held.empty()) {
                    std::this_thread::yield();
                    continue;
                }
                first = std::move(held.front());
                held.erase(held.begin());
                sum -= first.counted;
            }
            room.put(std::move(first));
        }
    });
    random_stream draw(random_key{1, random_domain::user});
    for (int batch = 0; batch < 2000; ++batch) {
        const std::uint64_t need = batch % 50 == 0 ? room_bytes : 1 + draw.below(room_bytes / 2);
        row_memory memory = room.take(need, "rows", {});
        CHECK(memory.counted >= need);
        const std::scoped_lock lock(mutex);
        if (need == room_bytes) {
            CHECK(held.empty());
            ++alone;
        }
        sum += memory.counted;
        most = std::max(most, sum);
        held.push_back(std::move(memory));
    }
    over = true;
    applies.join();
    CHECK(alone == 40);
    CHECK(most <= room_bytes);
    CHECK(sum == 0);
}

TEST_CASE("memory is kept for the next batch, and freed if the bound requires it") {
    row_room room(1 << 20);
    row_memory first = room.take(4000, "rows", {});
    const float* const where = first.rows.at_least(1000);
    room.put(std::move(first));
    row_memory again = room.take(2000, "rows", {});
    CHECK(again.rows.at_least(500) == where);
    CHECK(again.counted == 4000);
    room.put(std::move(again));
    row_memory all = room.take(1 << 20, "rows", {});
    room.put(std::move(all));
    row_memory small = room.take(100, "rows", {});
    CHECK(small.counted == 100); // the growth of the large one is freed
    row_memory other = room.take((1 << 20) - 100, "rows", {});
    room.put(std::move(small));
    room.put(std::move(other));
    room.release();
}

TEST_CASE("a batch of any size runs alone: it waits for all before it, those after it wait, and its memory is freed") {
    row_room room(100);
    row_memory first = room.take(40, "rows", {}), second = room.take(30, "rows", {});
    std::atomic<int> applied = 0;
    std::jthread applies([&] {
        for (row_memory* memory : {&first, &second}) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            ++applied;
            room.put(std::move(*memory));
        }
    });
    row_memory large = room.take_alone(1000, {});
    CHECK(applied == 2);
    CHECK(large.alone);
    CHECK(large.counted == 1000);
    (void)large.rows.at_least(250);
    applies = std::jthread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        ++applied;
        room.put(std::move(large));
    });
    const row_memory small = room.take(10, "rows", {});
    CHECK(applied == 3);
    CHECK(!small.alone);
    CHECK(small.counted == 10); // the memory of the large one is gone
    CHECK(small.rows.size_bytes() == 0);
    std::stop_source stop;
    stop.request_stop();
    CHECK_THROWS_AS((void)room.take_alone(1, stop.get_token()), error);
    CHECK_THROWS_AS(room.drain(stop.get_token()), error);
}

TEST_CASE("more than the limit is refused by name, a stop ends a wait, and without a bound nothing waits") {
    row_room room(100);
    CHECK_THROWS_WITH_AS(
        (void)room.take(101, "rows of a batch", {}), doctest::Contains("rows of a batch"), over_budget);
    row_memory first = room.take(60, "rows", {});
    std::stop_source stop;
    std::jthread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        stop.request_stop();
    });
    try {
        (void)room.take(60, "rows", stop.get_token());
        FAIL("it did not wait");
    } catch (const error& e) {
        CHECK(e.code() == errc::canceled);
    }
    room.put(std::move(first));
    row_room open(0);
    std::vector<row_memory> many;
    for (std::uint64_t i = 0; i < 100; ++i) many.push_back(open.take(std::uint64_t{1} << 40, "rows", {}));
    CHECK(many.size() == 100);
}

} // namespace test_train_row_room
