#include <gneiss/storage/engine/threads.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

namespace test_storage_engine_threads {

using namespace gneiss;
using gneiss::test::temporary_directory;

TEST_CASE("a pool of any depth moves the same bytes") {
    const temporary_directory folder;
    for (const std::size_t depth : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{32}}) {
        any_engine engine = threads_engine(depth);
        CHECK(engine.traits().depth >= 1);
        file target(engine, folder / "f", {.write = true, .create = true, .truncate = true});
        std::vector<std::byte> sent(100'000), received(sent.size());
        for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
        io_queue queue(engine, {.piece_bytes = 1024});
        queue.write(target, 0, sent);
        queue.drain();
        queue.read(target, 0, received);
        queue.drain();
        CHECK(sent == received);
    }
}

TEST_CASE("pools of several threads may share one file") {
    const temporary_directory folder;
    std::vector<std::jthread> users;
    for (std::size_t t = 0; t < 4; ++t)
        users.emplace_back([&folder, t] {
            any_engine engine = threads_engine(4);
            file target(engine, folder / "f", {.write = true, .create = true});
            std::vector<std::byte> sent(10'000, static_cast<std::byte>(t + 1)), received(sent.size());
            io_queue queue(engine, {.piece_bytes = 512});
            for (int round = 0; round < 5; ++round) {
                queue.write(target, t * sent.size(), sent);
                queue.drain();
                queue.read(target, t * sent.size(), received);
                queue.drain();
                CHECK(sent == received);
            }
        });
}

} // namespace test_storage_engine_threads
