#include <gneiss/storage/engine/file.hpp>

#include "storage/support.hpp"
#include "support/direct_alignment.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

#include <bit>

namespace test_storage_engine_file {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

TEST_CASE("a file reports its size after every resize, and new bytes are zero") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        any_engine engine = make();
        file target(engine, folder / "f", {.write = true, .create = true, .truncate = true});
        CHECK(target.size() == 0);
        for (const std::uint64_t bytes : {1000U, 10U, 5000U, 0U, 77U}) {
            target.resize(bytes);
            CHECK(target.size() == bytes);
        }
        std::vector<std::byte> content(77, std::byte{1});
        io_queue queue(engine);
        queue.read(target, 0, content);
        queue.drain();
        CHECK(content == std::vector<std::byte>(77));
    }
}

TEST_CASE("a direct file has an alignment that is a power of two, and falls back if direct I/O is unavailable") {
    const temporary_directory folder(std::filesystem::current_path());
    any_engine engine = threads_engine(1);
    const file target(engine, folder / "f", {.write = true, .create = true, .direct = true});
    CHECK(std::has_single_bit(target.alignment()));
    CHECK(target.alignment() <= page_alignment);
    const file buffered(engine, folder / "f");
    CHECK(buffered.alignment() == 1);
    const file status(engine, "/proc/self/status", {.direct = true}); // O_DIRECT is EINVAL there
    CHECK_FALSE(status.direct());
}

TEST_CASE("direct I/O with an alignment above a page is replaced by the page cache") {
    const temporary_directory folder(std::filesystem::current_path());
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        any_engine engine = make();
        const open_options options{.write = true, .create = true, .direct = true};
        const bool possible = file(engine, folder / "f", options).direct();
        for (const std::uint32_t wanted : {0U, 512U, 4096U, 8192U, 65536U}) {
            CAPTURE(wanted);
            const gneiss::test::claim_direct_alignment claim(wanted);
            file target(engine, folder / "f", options);
            CHECK(target.direct() == (possible && wanted != 0 && wanted <= page_alignment));
            auto page = aligned_buffer<std::byte>::zeroed(page_alignment); // the padding of rows and slots
            io_queue queue(engine);
            CHECK_NOTHROW(queue.write(target, 3 * page_alignment, page.bytes()));
            CHECK_NOTHROW(queue.drain());
            CHECK_NOTHROW(queue.read(target, 3 * page_alignment, page.bytes()));
            CHECK_NOTHROW(queue.drain());
        }
    }
}

TEST_CASE("a moved file is the same file, and closes once") {
    const temporary_directory folder;
    any_engine engine = threads_engine(1);
    file first(engine, folder / "f", {.write = true, .create = true});
    file second = std::move(first);
    CHECK_FALSE(first.is_open()); // NOLINT(bugprone-use-after-move): the moved-from state is tested
    CHECK(second.is_open());
    second.resize(10);
    first = std::move(second);
    CHECK(first.size() == 10);
}

TEST_CASE("after a failed sync, whatever its errno, the file refuses writes and is not synced again") {
    for (const fault_kind kind : {fault_kind::device_error, fault_kind::no_space, fault_kind::interrupted}) {
        const auto injector = std::make_shared<fault_injector>(
            fault{.kind = kind, .at = 1, .on = {.open = false, .resize = false, .read = false, .write = false}});
        any_engine engine = faulty(memory_engine(), injector);
        file target(engine, "f", {.write = true, .create = true});
        std::vector<std::byte> bytes(100);
        io_queue queue(engine);
        queue.write(target, 0, bytes);
        queue.sync(target);
        CHECK_THROWS_AS(queue.drain(), io_error);
        CHECK(injector->operations() == 1);
        CHECK(target.poison() != 0);
        CHECK_THROWS_AS(queue.write(target, 0, bytes), io_error);
        CHECK_THROWS_AS(queue.sync(target), io_error);
        CHECK_THROWS_AS(target.resize(5), io_error);
        CHECK(injector->operations() == 1);
        queue.read(target, 0, bytes); // existing contents can still be read
        queue.drain();
    }
}

TEST_CASE("a canceled sync was not executed: it runs again and has no effect on the file") {
    constexpr fault_targets only_sync{.open = false, .resize = false, .read = false, .write = false};
    for (const bool sticky : {false, true}) {
        CAPTURE(sticky);
        const auto injector = std::make_shared<fault_injector>(fault{fault_kind::canceled, 1, sticky, only_sync});
        any_engine engine = faulty(memory_engine(), injector);
        file target(engine, "f", {.write = true, .create = true});
        std::vector<std::byte> bytes(100);
        io_queue queue(engine, {.retries = 3});
        queue.write(target, 0, bytes);
        queue.sync(target);
        if (sticky) {
            try {
                queue.drain();
                FAIL("no error");
            } catch (const io_error& e) {
                CHECK(e.code().value() == ECANCELED);
            }
        } else {
            CHECK_NOTHROW(queue.drain());
        }
        CHECK(injector->operations() == (sticky ? 4 : 2));
        CHECK(target.poison() == 0);
        CHECK_NOTHROW(queue.write(target, 0, bytes));
        CHECK_NOTHROW(queue.drain());
    }
}

TEST_CASE("an engine's error about a handle names the file") {
    const temporary_directory folder;
    any_engine engine = threads_engine(1);
    {
        file result(engine, folder / "f", {.write = true, .create = true});
    }
    file target(engine, folder / "f");
    try {
        target.resize(100);
        FAIL("no error");
    } catch (const io_error& e) {
        CHECK(e.place().path == folder / "f");
        CHECK(e.place().length == 100);
    }
}

} // namespace test_storage_engine_file
