#include <gneiss/storage/engine/faulty.hpp>

#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/io/io_queue.hpp>

#include <doctest/doctest.h>

#include <cstring>

namespace test_storage_engine_faulty {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

namespace {

constexpr fault_kind all_kinds[] = {fault_kind::device_error, fault_kind::no_space, fault_kind::short_transfer,
    fault_kind::zero_read, fault_kind::interrupted, fault_kind::try_again, fault_kind::canceled};

struct outcome {
    bool right = false;      ///< completed with the right bytes
    bool typed = false;      ///< ended in an `error` or `io_error`
    bool wrong_data = false; ///< claimed success with other bytes
    std::size_t in_flight = 0;
};

/// Writes several ranges, syncs, reads them back. Everything is written before `oracle` is compared.
outcome write_and_read_back(any_engine& engine, const std::filesystem::path& path, bool direct) {
    constexpr std::size_t part = 3 * 4096, parts = 4;
    outcome out;
    aligned_buffer<std::byte> oracle(part * parts), read(part * parts);
    for (std::size_t i = 0; i < oracle.size(); ++i)
        oracle[i] = static_cast<std::byte>(random_key(5, random_domain::user)[i]);
    std::memset(read.data(), 0, read.size());
    try {
        file target(engine, path, {.write = true, .create = true, .truncate = true, .direct = direct});
        target.resize(oracle.size());
        io_queue queue(engine, {.piece_bytes = 4096, .retries = 4});
        for (std::size_t i = 0; i < parts; ++i) queue.write(target, i * part, oracle.span().subspan(i * part, part), i);
        queue.sync(target, parts);
        std::size_t finished = 0;
        while (queue.next_done()) ++finished;
        if (finished != parts + 1) return out;
        for (std::size_t i = 0; i < parts; ++i) queue.read(target, i * part, read.span().subspan(i * part, part), i);
        queue.drain();
        out.right = std::memcmp(oracle.data(), read.data(), oracle.size()) == 0;
        out.wrong_data = !out.right;
    } catch (const io_error&) {
        out.typed = true;
    } catch (const error&) {
        out.typed = true;
    }
    out.in_flight = engine.in_flight();
    return out;
}

} // namespace

TEST_CASE("a fault at any operation ends in the right bytes or a typed error, with nothing in flight") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines(4))
        for (const bool direct : {false, true})
            for (const fault_kind kind : all_kinds)
                for (const bool sticky : {false, true})
                    for (std::uint64_t at = 1;; ++at) {
                        CAPTURE(name);
                        CAPTURE(static_cast<int>(kind));
                        CAPTURE(sticky);
                        CAPTURE(at);
                        const auto injector = std::make_shared<fault_injector>(fault{kind, at, sticky, {}});
                        any_engine engine = faulty(make(), injector);
                        const outcome out = write_and_read_back(engine, folder / "swept", direct);
                        CHECK((out.right || out.typed));
                        CHECK_FALSE(out.wrong_data);
                        CHECK(out.in_flight == 0);
                        if (injector->injected() == 0) {
                            CHECK(out.right); // the sweep is over
                            break;
                        }
                        const bool fatal = kind == fault_kind::device_error || kind == fault_kind::no_space ||
                            kind == fault_kind::zero_read;
                        if (fatal) CHECK(out.typed);
                        if (kind == fault_kind::short_transfer) CHECK(out.right);
                        REQUIRE(at < 1000);
                    }
}

TEST_CASE("a reader retries and counts an interruption") {
    const auto injector = std::make_shared<fault_injector>(fault{.kind = fault_kind::interrupted, .at = 2});
    any_engine engine = faulty(memory_engine(), injector);
    CHECK(write_and_read_back(engine, "f", false).right);
    CHECK(injector->injected() == 1);
}

TEST_CASE("faults affect only the selected calls") {
    const fault_targets only_open{.resize = false, .read = false, .write = false, .sync = false};
    const auto injector = std::make_shared<fault_injector>(fault{fault_kind::device_error, 2, false, only_open});
    any_engine engine = faulty(memory_engine(), injector);
    CHECK(write_and_read_back(engine, "f", false).right);
    CHECK_THROWS_AS(file(engine, "f"), io_error);
    CHECK_NOTHROW(file(engine, "f"));
    CHECK(injector->operations() == 3);
}

TEST_CASE("an injector shared by several engines counts all their operations") {
    const auto injector = std::make_shared<fault_injector>();
    const memory_file_system disk;
    any_engine first = faulty(memory_engine(disk), injector), second = faulty(memory_engine(disk), injector);
    CHECK(write_and_read_back(first, "f", false).right);
    const std::uint64_t half = injector->operations();
    CHECK(half > 0);
    CHECK(write_and_read_back(second, "f", false).right);
    CHECK(injector->operations() == 2 * half);
}

} // namespace test_storage_engine_faulty
