#include <gneiss/storage/engine/throttled.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

#include <cmath>

namespace test_storage_engine_throttled {

using namespace gneiss;
using namespace std::chrono_literals;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

namespace {

/// A clock that sleeping advances; copies share it.
struct virtual_timer {
    using time_point = std::chrono::steady_clock::time_point;

    [[nodiscard]] time_point now() const { return *time; }
    void sleep_until(time_point when) const { *time = std::max(*time, when); }

    std::shared_ptr<time_point> time = std::make_shared<time_point>();
};

} // namespace

TEST_CASE("n bytes take n / bandwidth, rounded to blocks, plus the latency once, in virtual time") {
    for (const std::size_t block : {std::size_t{1}, std::size_t{4096}, std::size_t{128 * 1024}})
        for (const std::size_t depth : {std::size_t{1}, std::size_t{3}, std::size_t{16}}) {
            CAPTURE(block);
            CAPTURE(depth);
            const virtual_timer timer;
            const throttle_options options{.bytes_per_second = 1e6, .latency = 10ms, .block_bytes = block};
            const auto device = std::make_shared<throttled_device<virtual_timer>>(options, timer);
            any_engine engine =
                throttled<memory_engine, virtual_timer>(memory_engine(memory_file_system(), depth), device);
            file target(engine, "f", {.write = true, .create = true});
            std::vector<std::byte> bytes(100'000, std::byte{1}), read(bytes.size());
            io_queue queue(engine, {.piece_bytes = 512 * 20});
            queue.write(target, 0, bytes);
            queue.drain();
            const std::size_t pieces = 10;
            const auto charged = static_cast<double>(device->charged(10240) * 9 + device->charged(100'000 - 9 * 10240));
            const auto elapsed = std::chrono::duration<double>(*timer.time - virtual_timer::time_point{}).count();
            CHECK(elapsed >= charged / 1e6 + 0.010 - 1e-9);
            CHECK(elapsed <= charged / 1e6 + 0.010 * static_cast<double>(pieces) + 1e-6);
            queue.read(target, 0, read);
            queue.drain();
            CHECK(bytes == read);
        }
}

TEST_CASE("engines that share a device share its bandwidth") {
    const virtual_timer timer;
    const auto device = std::make_shared<throttled_device<virtual_timer>>(
        throttle_options{.bytes_per_second = 1e6, .latency = 0ms, .block_bytes = 1}, timer);
    const memory_file_system disk;
    any_engine first = throttled<memory_engine, virtual_timer>(memory_engine(disk), device);
    any_engine second = throttled<memory_engine, virtual_timer>(memory_engine(disk), device);
    file a(first, "a", {.write = true, .create = true}), b(second, "b", {.write = true, .create = true});
    const std::vector<std::byte> bytes(50'000);
    io_queue queue_a(first), queue_b(second);
    queue_a.write(a, 0, bytes);
    queue_b.write(b, 0, bytes);
    queue_a.submit();
    queue_b.submit();
    queue_a.drain();
    queue_b.drain();
    CHECK(*timer.time - virtual_timer::time_point{} >= 100ms);
    CHECK(*timer.time - virtual_timer::time_point{} < 101ms);
}

TEST_CASE("real time is never shorter than the device's model, on every engine") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        const throttle_options options{.bytes_per_second = 20e6, .latency = 1ms, .block_bytes = 4096};
        any_engine engine = throttled<any_engine>(make(), options);
        file target(engine, folder / "f", {.write = true, .create = true});
        const std::vector<std::byte> bytes(400'000, std::byte{1});
        io_queue queue(engine, {.piece_bytes = 65536});
        const auto began = std::chrono::steady_clock::now();
        queue.write(target, 0, bytes);
        queue.sync(target);
        queue.drain();
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
        CHECK(elapsed.count() >= 400'000 / 20e6 + 0.002);
        CHECK(engine.in_flight() == 0);
        std::vector<std::byte> read(bytes.size());
        queue.read(target, 0, read);
        queue.drain();
        CHECK(read == bytes);
    }
}

} // namespace test_storage_engine_throttled
