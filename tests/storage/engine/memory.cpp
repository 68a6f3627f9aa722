#include <gneiss/storage/engine/memory.hpp>

#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

#include <thread>

namespace test_storage_engine_memory {

using namespace gneiss;

TEST_CASE("copies of a memory file system share it, and files end with their last handle") {
    const memory_file_system disk;
    memory_file_system copy = disk;
    any_engine engine = memory_engine(disk);
    std::vector<std::byte> bytes(100, std::byte{1});
    {
        file target(engine, "f", {.write = true, .create = true});
        io_queue queue(engine);
        queue.write(target, 50, bytes);
        queue.drain();
        CHECK(copy.exists("f"));
        CHECK(copy.used() == 150);
        CHECK(copy.contents("f")[149] == std::byte{1});
        CHECK(copy.contents("f")[49] == std::byte{0});
        copy.remove("f");
        CHECK_FALSE(disk.exists("f"));
        CHECK(target.size() == 150);
    }
    CHECK(disk.used() == 0);
    CHECK_THROWS_AS(file(engine, "f"), io_error);
}

TEST_CASE("a full memory file system refuses growth like a full disk, and accepts it once space is free") {
    memory_file_system disk(1000);
    any_engine engine = memory_engine(disk);
    file first(engine, "a", {.write = true, .create = true}), second(engine, "b", {.write = true, .create = true});
    first.resize(800);
    try {
        second.resize(201);
        FAIL("no error");
    } catch (const io_error& e) {
        CHECK(e.out_of_space());
    }
    std::vector<std::byte> bytes(300);
    io_queue queue(engine);
    queue.write(second, 0, bytes);
    try {
        queue.drain();
        FAIL("no error");
    } catch (const io_error& e) {
        CHECK(e.out_of_space());
    }
    first.resize(100);
    queue.write(second, 0, bytes);
    queue.drain();
    CHECK(disk.used() == 400);
}

TEST_CASE("threads with separate engines share the files of one memory file system") {
    const memory_file_system disk;
    {
        any_engine engine = memory_engine(disk);
        file(engine, "f", {.write = true, .create = true}).resize(4000);
    }
    {
        std::vector<std::jthread> writers;
        for (std::size_t t = 0; t < 4; ++t)
            writers.emplace_back([&disk, t] {
                any_engine engine = memory_engine(disk, 4, t);
                file target(engine, "f", {.write = true});
                const std::vector<std::byte> bytes(1000, static_cast<std::byte>(t + 1));
                io_queue queue(engine, {.piece_bytes = 512});
                queue.write(target, t * 1000, bytes);
                queue.drain();
            });
    }
    const std::vector<std::byte> bytes = disk.contents("f");
    for (std::size_t i = 0; i < bytes.size(); ++i) CHECK(bytes[i] == static_cast<std::byte>(i / 1000 + 1));
}

} // namespace test_storage_engine_memory
