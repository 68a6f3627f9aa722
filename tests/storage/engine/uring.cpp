#ifdef GNEISS_HAS_URING
#include <gneiss/storage/engine/uring.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

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

} // namespace

TEST_CASE("a ring may be made in one thread and used in another, and again in a third") {
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

TEST_CASE("many rings live at once") {
    if (!allowed()) return;
    std::vector<any_engine> engines;
    for (int i = 0; i < 8; ++i) engines.emplace_back(uring_engine(8));
    for (any_engine& engine : engines) CHECK_NOTHROW(probe_engine(engine));
}
#endif

} // namespace test_storage_engine_uring
