#include <gneiss/storage/io/io_queue.hpp>

#include "storage/forwarding_engine.hpp"
#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/bitmap.hpp>
#include <gneiss/core/random.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <thread>

namespace test_storage_io_io_queue {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

namespace {

void fill(std::span<std::byte> bytes, random_key key) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(key[i]);
}

/// Runs random writes, reads and syncs whose ranges in flight do not overlap, and compares with a plain array. Returns
/// the final bytes of the file.
std::vector<std::byte> run_mix(any_engine& engine, const std::filesystem::path& path, bool direct, std::uint64_t seed) {
    constexpr std::size_t block = 4096, blocks = 64;
    file target(engine, path, {.write = true, .create = true, .truncate = true, .direct = direct});
    target.resize(block * blocks);
    std::vector<std::byte> oracle(block * blocks);
    io_queue queue(engine, {.piece_bytes = 4096 * 2});
    random_stream draw(random_key(seed, random_domain::user));

    struct operation {
        bool reading;
        std::size_t first, count;
        aligned_buffer<std::byte> buffer;
    };
    for (int round = 0; round < 20; ++round) {
        std::map<std::uint64_t, operation> open;
        bitmap used(blocks);
        for (std::uint64_t tag = 0; tag < 12; ++tag) {
            const auto first = static_cast<std::size_t>(draw.below(blocks));
            const auto count = static_cast<std::size_t>(1 + draw.below(std::min<std::size_t>(7, blocks - first)));
            bool free = true;
            for (std::size_t i = first; i < first + count; ++i) free = free && !used[i];
            if (!free) continue;
            for (std::size_t i = first; i < first + count; ++i) used.set(i);
            operation op{draw.below(2) == 0, first, count, aligned_buffer<std::byte>(count * block)};
            if (op.reading) {
                queue.read(target, first * block, op.buffer.span(), tag);
            } else {
                fill(op.buffer.span(), random_key(draw(), random_domain::user));
                std::memcpy(oracle.data() + first * block, op.buffer.data(), count * block);
                queue.write(target, first * block, op.buffer.span(), tag);
            }
            open.emplace(tag, std::move(op));
            if (draw.below(4) == 0) queue.submit();
        }
        if (draw.below(3) == 0) {
            queue.sync(target, 99);
            open.emplace(99, operation{false, 0, 0, {}});
        }
        while (const auto tag = queue.next_done()) {
            const auto found = open.find(*tag);
            REQUIRE(found != open.end());
            const operation& op = found->second;
            if (op.reading)
                CHECK(std::memcmp(op.buffer.data(), oracle.data() + op.first * block, op.count * block) == 0);
            open.erase(found);
        }
        CHECK(open.empty());
        CHECK(queue.in_flight() == 0);
        CHECK(queue.outstanding() == 0);
    }
    aligned_buffer<std::byte> all(oracle.size());
    queue.read(target, 0, all.span());
    queue.drain();
    CHECK(std::memcmp(all.data(), oracle.data(), oracle.size()) == 0);
    return {all.begin(), all.end()};
}

} // namespace

TEST_CASE("every engine gives the bytes of an array, for any mix of reads, writes and syncs") {
    const temporary_directory folder;
    for (const bool direct : {false, true})
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
            std::vector<std::byte> first;
            for (const auto& [name, make] : all_engines()) {
                CAPTURE(name);
                any_engine engine = make();
                const std::vector<std::byte> bytes = run_mix(engine, folder / "mix", direct, seed);
                if (first.empty()) first = bytes;
                CHECK(bytes == first);
            }
        }
}

TEST_CASE("a read of any range returns its bytes, up to the last of a file of odd length, direct or not") {
    const temporary_directory folder;
    std::vector<std::byte> oracle(10'000);
    fill(oracle, random_key(1, random_domain::user));
    for (const auto& [name, make] : all_engines())
        for (const bool direct : {false, true}) {
            CAPTURE(name);
            CAPTURE(direct);
            any_engine engine = make();
            {
                file target(engine, folder / "odd", {.write = true, .create = true, .truncate = true});
                io_queue queue(engine);
                queue.write(target, 0, oracle);
                queue.sync(target);
                queue.drain();
            }
            file source(engine, folder / "odd", {.direct = direct});
            CHECK(source.size() == oracle.size());
            io_queue queue(engine, {.piece_bytes = 4096});
            random_stream draw(random_key(2, random_domain::user));
            for (int i = 0; i < 200; ++i) {
                const auto offset = static_cast<std::size_t>(draw.below(oracle.size() + 1));
                const std::size_t rest = oracle.size() - offset;
                const std::size_t length = i % 4 == 0 ? rest : static_cast<std::size_t>(draw.below(rest + 1));
                aligned_buffer<std::byte> buffer(align_range(offset, length, source.alignment()).length);
                const std::span<std::byte> wanted = queue.read_unaligned(source, offset, length, buffer.bytes());
                queue.drain();
                REQUIRE(wanted.size() == length);
                CHECK(std::equal(wanted.begin(), wanted.end(), oracle.begin() + static_cast<long>(offset)));
            }
        }
}

TEST_CASE("a read beyond the end of a file is a typed error with the place, and the queue stays usable") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        any_engine engine = make();
        file target(engine, folder / "short", {.write = true, .create = true, .truncate = true});
        std::vector<std::byte> bytes(5000, std::byte{7});
        io_queue queue(engine, {.piece_bytes = 512});
        queue.write(target, 0, bytes);
        queue.drain();
        std::vector<std::byte> longer(20'000);
        queue.read(target, 0, longer);
        try {
            queue.drain();
            FAIL("no error");
        } catch (const error& e) {
            CHECK(e.code() == errc::corrupt);
            CHECK(e.place().path == folder / "short");
            CHECK(e.place().offset >= 5000);
            CHECK(e.place().length > 0);
        }
        CHECK(queue.in_flight() == 0);
        CHECK(queue.outstanding() == 0);
        CHECK_FALSE(queue.next_done());
        queue.read(target, 0, std::span(longer).first(5000));
        queue.drain();
        CHECK(std::equal(bytes.begin(), bytes.end(), longer.begin()));
    }
}

TEST_CASE("a missing file, and a write to a file opened for reading, are io_errors that name it") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        any_engine engine = make();
        CHECK_THROWS_AS(file(engine, folder / "absent"), io_error);
        {
            file result(engine, folder / "read-only", {.write = true, .create = true});
        }
        file target(engine, folder / "read-only");
        const std::vector<std::byte> bytes(100);
        io_queue queue(engine);
        queue.write(target, 0, bytes);
        try {
            queue.drain();
            FAIL("no error");
        } catch (const io_error& e) {
            CHECK(e.code().value() == EBADF);
            CHECK(e.place().path == folder / "read-only");
            CHECK(e.place().length == 100);
        }
        CHECK_THROWS_AS(target.resize(10), io_error);
    }
}

TEST_CASE("engines of one factory share their files") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        std::vector<std::byte> sent(100'000), received(sent.size());
        fill(sent, random_key(3, random_domain::user));
        std::jthread([&] {
            any_engine engine = make();
            file target(engine, folder / "shared", {.write = true, .create = true, .truncate = true});
            io_queue queue(engine);
            queue.write(target, 0, sent);
            queue.drain();
        }).join();
        any_engine engine = make();
        file source(engine, folder / "shared");
        io_queue queue(engine, {.piece_bytes = 1024});
        queue.read(source, 0, received);
        queue.drain();
        CHECK(sent == received);
    }
}

TEST_CASE("an engine may move to another thread while nothing is in flight") {
    const temporary_directory folder;
    for (const auto& [name, make] : all_engines()) {
        CAPTURE(name);
        any_engine engine = make();
        file target(engine, folder / "moved", {.write = true, .create = true, .truncate = true});
        std::vector<std::byte> sent(5000, std::byte{1}), received(sent.size());
        {
            io_queue queue(engine);
            queue.write(target, 0, sent);
            queue.drain();
        }
        std::jthread([&] {
            io_queue queue(engine);
            queue.read(target, 0, received);
            queue.drain();
        }).join();
        CHECK(sent == received);
    }
}

TEST_CASE("statistics count requested operations") {
    any_engine engine = memory_engine();
    file target(engine, "f", {.write = true, .create = true});
    std::vector<std::byte> bytes(10'000);
    io_queue queue(engine, {.piece_bytes = 1024});
    queue.write(target, 0, bytes);
    queue.sync(target);
    queue.drain();
    queue.read(target, 0, bytes);
    queue.drain();
    CHECK(queue.stats().writes == 10);
    CHECK(queue.stats().reads == 10);
    CHECK(queue.stats().syncs == 1);
    CHECK(queue.stats().requests() == 21);
    CHECK(queue.stats().written_bytes == 10'000);
    CHECK(queue.stats().read_bytes == 10'000);
    CHECK(queue.stats().retries == 0);
}

TEST_CASE("a stop request ends the wait with a typed error and nothing in flight") {
    any_engine engine = memory_engine();
    file target(engine, "f", {.write = true, .create = true});
    std::vector<std::byte> bytes(100'000);
    io_queue queue(engine, {.piece_bytes = 512});
    queue.write(target, 0, bytes);
    queue.submit();
    std::stop_source stop;
    stop.request_stop();
    try {
        queue.drain(stop.get_token());
        FAIL("no error");
    } catch (const error& e) {
        CHECK(e.code() == errc::canceled);
    }
    CHECK(queue.in_flight() == 0);
    CHECK(queue.outstanding() == 0);
}

TEST_CASE("unaligned requests on a direct file are refused before they reach the device") {
    const temporary_directory folder(std::filesystem::current_path());
    any_engine engine = threads_engine(2);
    file target(engine, folder / "direct", {.write = true, .create = true, .direct = true});
    if (!target.direct()) return; // a file system without direct I/O
    io_queue queue(engine);
    aligned_buffer<std::byte> buffer(8192);
    CHECK_THROWS_AS(queue.read(target, 1, buffer.span()), error);
    CHECK_THROWS_AS(queue.read(target, 0, buffer.span().first(100)), error);
    CHECK_THROWS_AS(queue.write(target, 0, buffer.span().subspan(1, 4096)), error);
}

TEST_CASE("operations of zero bytes finish at once") {
    any_engine engine = memory_engine();
    file target(engine, "f", {.write = true, .create = true});
    io_queue queue(engine);
    queue.read(target, 12345, {}, 7);
    queue.write(target, 12345, {}, 8);
    CHECK(queue.next_done() == 7);
    CHECK(queue.next_done() == 8);
    CHECK_FALSE(queue.next_done());
    CHECK(target.size() == 0);
}

namespace {

/// Files in memory; some waits are refused while requests are in flight.
class refusing_engine : public storage_test::forwarding_engine<memory_engine> {
public:
    refusing_engine(const memory_file_system& disk, std::uint32_t* refusals)
        : forwarding_engine(memory_engine(disk)),
          refusals_(refusals) {}

    [[nodiscard]] std::size_t wait(std::span<io_completion> done, std::size_t at_least) {
        if (in_flight() != 0 && *refusals_ != 0) {
            --*refusals_;
            throw io_error(EBADR, "cannot wait", {});
        }
        return engine_.wait(done, at_least);
    }

private:
    std::uint32_t* refusals_;
};

} // namespace

TEST_CASE("if an engine cannot wait, buffers are free once its requests are done, and nothing starts before") {
    constexpr std::uint32_t retries = 4;
    const memory_file_system disk;
    for (const std::uint32_t many : {1U, 2U, retries, retries + 1, retries + 2, 3 * retries}) {
        CAPTURE(many);
        std::uint32_t refusals = 0;
        any_engine engine = refusing_engine(disk, &refusals);
        file target(engine, "f", {.write = true, .create = true, .truncate = true});
        std::vector<std::byte> written(2048), first(1024), second(1024);
        fill(written, random_key(many, random_domain::user));
        io_queue queue(engine, {.piece_bytes = 512, .retries = retries});
        queue.write(target, 0, written);
        queue.drain();
        queue.read(target, 0, first, 1);
        refusals = many;
        CHECK_THROWS_AS((void)queue.next_done(), io_error);
        CHECK((queue.outstanding() == 0) == (queue.in_flight() == 0));
        CHECK((queue.outstanding() == 0) == (many <= retries + 1));
        while (queue.outstanding() != 0) {
            try {
                queue.read(target, 1024, second, 2);
                break;
            } catch (const error& e) {
                CHECK(e.code() == errc::io);
                CHECK(queue.in_flight() != 0);
            }
        }
        if (queue.outstanding() == 0) queue.read(target, 1024, second, 2);
        std::ranges::fill(first, std::byte{'x'});
        CHECK(queue.next_done() == 2);
        CHECK(std::ranges::equal(second, std::span(written).subspan(1024)));
        CHECK(std::ranges::all_of(first, [](std::byte b) { return b == std::byte{'x'}; }));
        CHECK_FALSE(queue.next_done());
    }
}

} // namespace test_storage_io_io_queue
