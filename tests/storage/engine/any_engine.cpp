#include <gneiss/storage/engine/any_engine.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/storage/engine/file.hpp>

#include <doctest/doctest.h>

#include <array>
#include <set>

namespace test_storage_engine_any_engine {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

TEST_CASE("an engine takes a prefix of at most its depth, and each request completes once") {
    const temporary_directory folder;
    constexpr std::size_t depth = 4;
    for (const auto& [name, make] : all_engines(depth)) {
        CAPTURE(name);
        any_engine engine = make();
        CHECK(engine.traits().name == name);
        CHECK(engine.traits().depth == depth);
        file target(engine, folder / "f", {.write = true, .create = true});
        target.resize(100);
        std::array<std::byte, 100> bytes{};
        std::vector<io_request> requests;
        for (std::uint64_t i = 0; i < 10; ++i)
            requests.push_back({io_operation::read, target.handle(), i, bytes.data() + i, 1, 1000 + i});
        std::set<std::uint64_t> seen;
        std::size_t begun = 0;
        while (seen.size() < requests.size()) {
            begun += engine.submit(std::span(requests).subspan(begun));
            CHECK(engine.in_flight() <= depth);
            CHECK(engine.in_flight() == begun - seen.size());
            std::array<io_completion, 3> done;
            const std::size_t count = engine.wait(done, 1);
            CHECK(count >= 1);
            for (std::size_t i = 0; i < count; ++i) {
                CHECK(done[i].result == 1);
                CHECK(seen.insert(done[i].tag).second);
            }
        }
        CHECK(engine.in_flight() == 0);
        std::array<io_completion, 3> done;
        CHECK(engine.wait(done, 3) == 0); // nothing in flight: does not block
    }
}

TEST_CASE("an engine destroyed with operations in flight no longer accesses their buffers") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        std::vector<std::byte> bytes(1 << 20, std::byte{3});
        {
            any_engine engine = make();
            const int handle = engine.open(folder / "g", {.write = true, .create = true});
            const io_request request{io_operation::write, handle, 0, bytes.data(), bytes.size(), 1};
            CHECK(engine.submit({&request, 1}) == 1);
        }
        bytes.assign(bytes.size(), std::byte{4}); // a race under TSan if the write were still running
    }
}

TEST_CASE("a failed operation is a completion with its errno, not an exception") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        any_engine engine = make();
        {
            file result(engine, folder / "h", {.write = true, .create = true});
        }
        file target(engine, folder / "h");
        std::byte byte{1};
        const io_request request{io_operation::write, target.handle(), 0, &byte, 1, 77};
        CHECK(engine.submit({&request, 1}) == 1);
        io_completion done;
        CHECK(engine.wait({&done, 1}, 1) == 1);
        CHECK(done.tag == 77);
        CHECK(done.result == -EBADF);
    }
}

} // namespace test_storage_engine_any_engine
