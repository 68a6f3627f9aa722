#include <gneiss/storage/io/trace_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include <gneiss/cache/belady.hpp>
#include <gneiss/cache/replay.hpp>
#include <gneiss/cache/simulate.hpp>
#include <gneiss/cache/trace.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>

#include "cache/traces.hpp"
#include "support/temporary_directory.hpp"

namespace test_storage_io_trace_file {

using namespace gneiss;
using test::temporary_directory;

TEST_CASE("lists of ids survive the round trip, ascending ones in less space") {
    random_stream random(random_key(9, random_domain::user));
    for (const unsigned size : {0U, 1U, 2U, 100U, 5000U})
        for (const std::uint64_t range :
            {std::uint64_t{1}, std::uint64_t{200}, std::uint64_t{1} << 20, std::uint64_t{1} << 32})
            for (const bool ascending : {false, true}) {
                std::vector<std::uint32_t> ids(size), back(size);
                for (auto& id : ids) id = static_cast<std::uint32_t>(random.below(range));
                if (ascending) {
                    std::ranges::sort(ids);
                    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
                    back.resize(ids.size());
                }
                std::vector<std::byte> bytes{std::byte{42}};
                detail::encode_ids(ids, bytes);
                CHECK(bytes.size() <= 2 + 4 * ids.size());
                if (ascending && ids.size() == 5000) CHECK(bytes.size() < 4 * ids.size());
                std::span<const std::byte> from = std::span(bytes).subspan(1);
                detail::decode_ids(from, back, "file");
                CHECK(back == ids);
                CHECK(from.empty());
                for (std::size_t cut = 1; cut < std::min<std::size_t>(bytes.size(), 60); ++cut) {
                    from = std::span(bytes).subspan(1, bytes.size() - 1 - cut);
                    CHECK_THROWS_AS(detail::decode_ids(from, back, "file"), error);
                }
            }
    for (const auto& wrong :
        {std::vector<std::byte>{std::byte{9}, std::byte{1}}, std::vector<std::byte>(7, std::byte{255}),
            std::vector<std::byte>{
                std::byte{1}, std::byte{255}, std::byte{255}, std::byte{255}, std::byte{255}, std::byte{127}}}) {
        std::span<const std::byte> from = wrong;
        std::vector<std::uint32_t> id(1);
        CHECK_THROWS_AS(detail::decode_ids(from, id, "file"), error);
    }
}

TEST_CASE("change sets of a trace on disk equal those of the trace in memory, and replay from disk") {
    const temporary_directory folder;
    const serial_executor executor;
    const memory_trace trace = cache_test::random_trace(30, 60, 200, 4);
    std::vector<node_id> room, other;
    {
        trace_file_writer file(folder / "trace", 3);
        for (std::size_t batch = 0; batch < trace.batches(); ++batch) file.append(trace.read(batch, room));
        file.finish();
    }
    trace_file on_disk(folder / "trace", 3);
    for (std::size_t batch = 0; batch < trace.batches(); ++batch)
        CHECK(std::ranges::equal(on_disk.read(batch, other), trace.read(batch, room)));

    std::vector<change_set> expected;
    const auto in_memory =
        belady(trace, {.capacity = 25}, executor, [&](std::size_t, const change_set& c) { expected.push_back(c); });
    change_set_writer writer(folder / "changes");
    const auto outcome = belady(
        on_disk, {.capacity = 25, .nodes = 200}, executor, [&](std::size_t, const change_set& c) { writer.append(c); });
    writer.finish();
    CHECK(outcome.fill == in_memory.fill);
    CHECK(outcome.resident == in_memory.resident);

    change_set got;
    change_set_file changes(folder / "changes");
    changes.rewind(7);
    REQUIRE(changes.next(got));
    CHECK(got.in_position == expected[7].in_position);
    change_set_replay replay(25, outcome.fill.in, change_set_file(folder / "changes"));
    for (std::size_t batch = 0; batch < trace.batches(); ++batch) {
        replay.next(trace.read(batch, room), got);
        CHECK(got == expected[batch]);
    }
    belady_policy live(trace, {.capacity = 25}, executor);
    change_set_replay again(25, outcome.fill.in, change_set_file(folder / "changes"));
    CHECK(simulate(again, on_disk) == simulate(live, trace));
}

} // namespace test_storage_io_trace_file
