#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <sys/resource.h>

namespace test_storage_engine_uring {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

bool allowed() {
    try {
        (void)choose_engine("uring");
        return true;
    } catch (const error&) {
        return false;
    }
}

/// Denies the process new file descriptors during its lifetime.
class no_descriptors {
public:
    no_descriptors() {
        REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
        const rlimit none{.rlim_cur = 0, .rlim_max = before_.rlim_max};
        REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    }
    ~no_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
    no_descriptors(const no_descriptors&) = delete;
    no_descriptors& operator=(const no_descriptors&) = delete;

private:
    rlimit before_{};
};

} // namespace

TEST_CASE("rings end and begin in several threads at once") { // for the thread sanitizer: they get each other's memory
    if (!allowed()) return;
    const temporary_directory folder;
    plain_file::create(folder / "f").write_at(0, std::vector<std::byte>(1000, std::byte{7}));
    std::atomic<int> right{0};
    {
        std::vector<std::jthread> threads;
        for (int k = 0; k < 4; ++k)
            threads.emplace_back([&] {
                for (int i = 0; i < 50; ++i) {
                    any_engine engine = uring_engine(8);
                    io_queue queue(engine);
                    file source(engine, folder / "f", {});
                    aligned_buffer<std::byte> memory(16384);
                    const auto read = queue.read_unaligned(source, 500, 100, memory.bytes());
                    queue.drain();
                    right += read[99] == std::byte{7};
                }
            });
    }
    CHECK(right == 200);
}

TEST_CASE("a ring may be created in one thread and used in another, and again in a third") {
    if (!allowed()) return;
    const temporary_directory folder;
    any_engine engine = uring_engine(4);
    std::vector<std::byte> bytes(50'000, std::byte{1});
    for (int i = 0; i < 3; ++i)
        std::jthread([&] {
            file target(engine, folder / "f", {.write = true, .create = true});
            io_queue queue(engine, {.piece_bytes = 4096});
            queue.write(target, 0, bytes);
            queue.sync(target);
            queue.drain();
            CHECK(engine.in_flight() == 0);
        }).join();
}

TEST_CASE("if a thread cannot take over a ring, nothing stays in the engine and its buffer is free") {
    if (!allowed()) return;
    const temporary_directory folder;
    constexpr std::size_t half = 64 * 1024;
    any_engine engine = uring_engine(4);
    file target(engine, folder / "f", {.write = true, .create = true});
    auto mine = aligned_buffer<std::byte>::zeroed(half), others = aligned_buffer<std::byte>::zeroed(half);
    io_queue queue(engine);
    // The undefined-behavior sanitizer takes descriptors to look at a type for the first time.
    CHECK_THROWS_AS(file(engine, folder / "absent", {}), io_error);
    for (std::size_t i = 0; i < 2; ++i) {
        std::ranges::fill(mine.span(), static_cast<std::byte>(i + 1));
        queue.write(target, i * half, mine.bytes());
        queue.drain(); // this thread owns the ring
    }
    std::jthread([&] {
        const no_descriptors refused; // a ring needs one
        queue.read(target, 0, others.bytes());
        CHECK_THROWS_AS(queue.drain(), io_error);
        CHECK(queue.outstanding() == 0);
        CHECK(queue.in_flight() == 0);
    }).join();
    std::ranges::fill(others.span(), std::byte{9}); // reused
    queue.read(target, half, mine.bytes());
    CHECK_NOTHROW(queue.drain());
    CHECK(std::ranges::all_of(mine.span(), [](std::byte b) { return b == std::byte{2}; }));
    CHECK(std::ranges::all_of(others.span(), [](std::byte b) { return b == std::byte{9}; }));
    std::jthread([&] { // it may be taken over later
        queue.read(target, 0, others.bytes());
        CHECK_NOTHROW(queue.drain());
        CHECK(std::ranges::all_of(others.span(), [](std::byte b) { return b == std::byte{1}; }));
    })
        .join();
}

TEST_CASE("many rings may exist at once") {
    if (!allowed()) return;
    std::vector<any_engine> engines;
    for (int i = 0; i < 8; ++i) engines.emplace_back(uring_engine(8));
    for (any_engine& engine : engines) CHECK_NOTHROW(probe_engine(engine));
}

} // namespace test_storage_engine_uring
#endif
