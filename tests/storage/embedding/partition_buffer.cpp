#include <gneiss/storage/embedding/partition_buffer.hpp>

#include <doctest/doctest.h>

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/order/beta.hpp>
#include <gneiss/order/cost.hpp>
#include <gneiss/storage/engine/threads.hpp>

#include "storage/intercepted_engine.hpp"
#include "support/error_code.hpp"
#include "support/refused_threads.hpp"
#include "support/temporary_directory.hpp"

#include <fstream>
#include <future>
#include <thread>

namespace test_storage_embedding_partition_buffer {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::intercepted_engine;
using storage_test::interception;

namespace {

engine_factory engines() {
    return [] { return any_engine(threads_engine{}); };
}

/// Makes a row file whose row i holds i, 1000 + i, … in its floats.
std::unique_ptr<embedding_file> make_rows(const std::filesystem::path& path, row_partitioning partitioning,
    row_layout layout, std::uint32_t spare, const engine_factory& make = engines()) {
    any_engine engine = make();
    embedding_file::create(engine, path, partitioning, layout, spare);
    auto rows = std::make_unique<embedding_file>(make, path, partitioning, layout, spare);
    rows->fill([&](std::uint64_t first, matrix_view<float> to) {
        for (std::size_t i = 0; i < to.rows(); ++i)
            for (std::size_t f = 0; f < to.columns(); ++f) to(i, f) = static_cast<float>(first + i + 1000 * f);
    });
    rows->commit();
    return rows;
}

epoch_plan random_plan(random_stream& draw, std::uint32_t partitions, std::uint32_t slots) {
    epoch_plan states(1 + draw.below(10));
    for (buffer_state& s : states) {
        std::vector<partition_id> all(partitions);
        for (partition_id p = 0; p < partitions; ++p) all[p] = p;
        shuffle(all, random_key{draw(), random_domain::plan});
        all.resize(1 + draw.below(slots));
        std::ranges::sort(all);
        s.resident = all;
    }
    return states;
}

} // namespace

TEST_CASE("a disk run equals the in-memory run and moves the bytes of the plan, batches overlapping across states") {
    const temporary_directory directory;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        CAPTURE(seed);
        random_stream draw(random_key{seed, random_domain::user});
        const row_partitioning partitioning{1 + draw.below(3000), static_cast<std::uint32_t>(1 + draw.below(9))};
        const row_layout layout{
            static_cast<std::uint32_t>(1 + draw.below(9)), static_cast<std::uint32_t>(draw.below(9))};
        const auto slots = static_cast<std::uint32_t>(1 + draw.below(partitioning.partitions));
        const auto prefetch = static_cast<std::uint32_t>(draw.below(3));
        const auto rows = make_rows(directory / "rows", partitioning, layout, partitioning.partitions);
        const io_stats before = rows->statistics();

        std::vector<float> oracle(partitioning.nodes * layout.floats());
        for (std::uint64_t i = 0; i < partitioning.nodes; ++i)
            for (std::size_t f = 0; f < layout.floats(); ++f)
                oracle[i * layout.floats() + f] = static_cast<float>(i + 1000 * f);

        memory_budget budget;
        std::uint64_t expected_read = 0, expected_write = 0;
        {
            partition_buffer buffer(*rows, {.resident_partitions = slots, .prefetch = prefetch}, budget);
            CHECK(budget.used() == buffer.memory_slots() * rows->slot_bytes());
            for (int epoch = 0; epoch < 3; ++epoch) {
                const epoch_plan states = random_plan(draw, partitioning.partitions, slots);
                buffer.begin_epoch(states);
                std::vector<std::jthread> batches; // each drops its lease at a random time
                for (std::uint32_t s = 0; s < states.size(); ++s) {
                    const auto lease = buffer.acquire(s);
                    REQUIRE(lease);
                    for (const partition_id p : states[s].resident)
                        for (std::uint64_t v = partitioning.begin(p); v < partitioning.begin(p + 1); ++v)
                            for (std::size_t f = 0; f < layout.floats(); ++f) oracle[v * layout.floats() + f] += 1;
                    batches.emplace_back([&, hold = *lease, s, nap = draw.below(2000)] {
                        std::this_thread::sleep_for(std::chrono::microseconds(nap));
                        for (const partition_id p : states[s].resident) {
                            std::vector<node_id> ids;
                            for (std::uint64_t v = partitioning.begin(p); v < partitioning.begin(p + 1); ++v)
                                ids.push_back(static_cast<node_id>(v));
                            for_each_row(serial_executor{}, *hold, ids, [](std::size_t, std::span<float> row) {
                                for (float& x : row) x += 1;
                            });
                        }
                    });
                }
                batches.clear();
                buffer.end_epoch();
                if (!buffer.keeps_all()) {
                    const auto cost = cost_of(states, [&](partition_id p) { return rows->bytes_of(p); });
                    expected_read += cost.read_bytes;
                    expected_write += cost.written_bytes;
                }
            }
            if (!buffer.keeps_all()) {
                const io_stats now = rows->statistics();
                CHECK(now.read_bytes - before.read_bytes == expected_read);
                CHECK(now.written_bytes - before.written_bytes == expected_write);
            }
            buffer.flush();
            std::uint64_t next = 0;
            buffer.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
                CHECK(first == next);
                for (std::size_t i = 0; i < block.rows(); ++i, ++next)
                    for (std::size_t f = 0; f < layout.dim; ++f)
                        REQUIRE(block(i, f) == oracle[next * layout.floats() + f]);
            });
            CHECK(next == partitioning.nodes);
        }
        CHECK(budget.used() == 0);
        auto slot = aligned_buffer<float>::zeroed(rows->slot_bytes() / sizeof(float)); // state survives too
        for (partition_id p = 0; p < partitioning.partitions; ++p) {
            rows->read(p, slot.bytes());
            for (std::uint64_t i = 0; i < partitioning.size(p) * layout.floats(); ++i)
                REQUIRE(slot[i] == oracle[partitioning.begin(p) * layout.floats() + i]);
        }
    }
}

TEST_CASE("with few spare slots on disk the buffer requests commits, and a crash leaves the last one intact") {
    const temporary_directory directory;
    const row_partitioning partitioning{640, 8};
    const row_layout layout{4, 4};
    const auto rows = make_rows(directory / "rows", partitioning, layout, 5);
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 2, .prefetch = 1}, budget);
    const epoch_plan states = beta_order{8, 2, 1}(0);
    int commits = 0, after = 0;
    float added = 0;
    struct {
        std::vector<disk_slot> slots;
        std::vector<std::uint64_t> checksums;
        std::vector<float> rows;
    } saved;                         // the last checkpoint
    const auto reopened_rows = [&] { // as after a crash
        embedding_file reopened(
            engines(), rows->path(), partitioning, layout, saved.slots, rows->disk_slots(), saved.checksums);
        auto slot = aligned_buffer<float>::zeroed(static_cast<std::size_t>(reopened.slot_bytes() / sizeof(float)));
        std::vector<float> all;
        for (partition_id p = 0; p < partitioning.partitions; ++p) {
            reopened.read(p, slot.bytes());
            all.insert(all.end(), slot.data(), slot.data() + partitioning.size(p) * layout.floats());
        }
        return all;
    };
    const auto checkpoint = [&] {
        buffer.flush();
        saved.slots = rows->slots();
        saved.checksums = rows->checksums();
        saved.rows = reopened_rows();
        float sum = 0;
        for (partition_id p = 0; p < partitioning.partitions; ++p) {
            const std::uint64_t first = partitioning.begin(p);
            sum += saved.rows[static_cast<std::size_t>(first * layout.floats())] - static_cast<float>(first);
        }
        CHECK(sum == added);
        buffer.committed();
        ++commits;
    };
    buffer.begin_epoch(states);
    for (std::uint32_t s = 0; s < states.size(); ++s) {
        auto lease = buffer.acquire(s);
        while (!lease) {
            checkpoint();
            lease = buffer.acquire(s);
        }
        (**lease)[static_cast<node_id>(partitioning.begin(states[s].resident[0]))][0] += 1;
        added += 1;
        if (commits == 0) continue;
        CHECK(reopened_rows() == saved.rows);
        after += 1;
    }
    buffer.end_epoch();
    while (buffer.commit_wanted()) {
        CHECK(reopened_rows() == saved.rows);
        checkpoint();
        buffer.end_epoch();
    }
    CHECK(commits > 1);
    CHECK(after > 10); // states after the first checkpoint
    CHECK(reopened_rows() == saved.rows);
    float found = 0;
    buffer.for_each_block(
        [&](std::uint64_t first, matrix_view<const float> block) { found += block(0, 0) - static_cast<float>(first); });
    CHECK(found == added);
}

TEST_CASE("a flush with too few spare slots is a typed error and does not hang") {
    const temporary_directory directory;
    const row_partitioning partitioning{640, 8};
    const auto rows = make_rows(directory / "rows", partitioning, {4, 4}, 2);
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 4, .prefetch = 0}, budget);
    epoch_plan all(1);
    all[0].resident = {0, 1, 2, 3};
    buffer.begin_epoch(all);
    const auto lease = buffer.acquire(0);
    for (const partition_id p : all[0].resident) (**lease)[static_cast<node_id>(partitioning.begin(p))][0] += 1;
    CHECK(test::code_of([&] { buffer.flush(); }) == errc::no_space); // two spare slots, four partitions
}

TEST_CASE("a lease dropped while its partition is flushed lets the partition leave") {
    const memory_file_system disk;
    interception writing{.kind = io_operation::write, .during = {}};
    const row_partitioning partitioning{40, 4};
    const auto rows =
        make_rows("rows", partitioning, {4, 0}, 4, [&] { return any_engine(intercepted_engine(disk, writing)); });
    memory_budget budget;
    partition_buffer buffer(
        *rows, {.resident_partitions = 1, .prefetch = 0}, budget); // state 1 needs the memory of state 0
    buffer.begin_epoch(epoch_plan{{{0}, {}}, {{1}, {}}, {{0}, {}}});
    std::optional<state_lease> lease = buffer.acquire(0);
    REQUIRE(lease);
    (**lease)[0][0] = 7;
    writing.during = [&] { lease.reset(); }; // on the writing thread, which holds no lock then
    writing.armed = true;
    buffer.flush();
    CHECK_FALSE(lease);
    buffer.committed();
    // If the partition stays, the next state never arrives; this ends the wait.
    std::stop_source give_up;
    std::promise<void> over;
    const std::jthread watch([&, passed = over.get_future()] {
        if (passed.wait_for(std::chrono::seconds(20)) == std::future_status::timeout) give_up.request_stop();
    });
    for (const std::uint32_t s : {1U, 2U}) {
        lease.reset();
        CHECK_NOTHROW(lease = buffer.acquire(s, give_up.get_token()));
    }
    over.set_value();
    REQUIRE(lease);
    CHECK((**lease)[0][0] == 7);
    lease.reset();
    buffer.end_epoch();
}

TEST_CASE("nothing is written between flush and committed: the new checkpoint stays intact") {
    for (const bool syncing : {true, false}) { // the last lease is dropped while the flush syncs, or after it
        CAPTURE(syncing);
        const memory_file_system disk;
        interception syncs{.kind = io_operation::sync, .during = {}};
        const engine_factory make = [&] { return any_engine(intercepted_engine(disk, syncs)); };
        const row_partitioning partitioning{40, 4};
        const row_layout layout{4, 0};
        const auto rows = make_rows("rows", partitioning, layout, 8, make);
        memory_budget budget;
        partition_buffer buffer(*rows, {.resident_partitions = 1, .prefetch = 1}, budget);
        buffer.begin_epoch(epoch_plan{{{0}, {}}, {{1}, {}}, {{2}, {}}});
        std::optional<state_lease> lease = buffer.acquire(0);
        REQUIRE(lease);
        (**lease)[0][0] = 2;
        std::uint64_t flushed = 0;
        const auto drop = [&] { // and lets the buffer write the partition, or decide that it must not
            flushed = rows->statistics().writes;
            lease.reset();
            while (!buffer.commit_wanted() && rows->statistics().writes == flushed) std::this_thread::yield();
        };
        syncs.during = drop;
        syncs.armed = syncing;
        buffer.flush();
        const std::vector<disk_slot> slots = rows->slots();
        const std::vector<std::uint64_t> checksums = rows->checksums();
        float expected = 2;
        if (!syncing) {
            (**lease)[0][0] = expected = 3; // its batches continue
            drop();
        }
        CHECK(rows->statistics().writes == flushed);
        embedding_file restarted(make, "rows", partitioning, layout, slots, rows->disk_slots(), checksums);
        auto found = aligned_buffer<float>::zeroed(static_cast<std::size_t>(restarted.slot_bytes() / sizeof(float)));
        CHECK_NOTHROW(restarted.read(0, found.bytes()));
        CHECK(found[0] == 2);
        buffer.committed();
        for (const std::uint32_t s : {1U, 2U}) CHECK(buffer.acquire(s));
        buffer.end_epoch();
        CHECK_FALSE(buffer.commit_wanted());
        rows->read(0, found.bytes());
        CHECK(found[0] == expected);
    }
}

TEST_CASE("an epoch whose flush was never committed requests a commit; one that follows a flush does not") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {40, 4}, {4, 0}, 12);
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 1, .prefetch = 0}, budget);
    const epoch_plan states{{{0}, {}}, {{1}, {}}};
    buffer.begin_epoch(states);
    std::optional<state_lease> lease = buffer.acquire(0);
    REQUIRE(lease);
    buffer.flush(); // without a checkpoint
    lease.reset();
    CHECK_FALSE(buffer.acquire(1));
    buffer.flush();
    buffer.committed();
    CHECK(buffer.acquire(1));
    buffer.end_epoch();
    buffer.flush(); // without a checkpoint
    buffer.for_each_block([](std::uint64_t, matrix_view<const float>) {});
    buffer.begin_epoch(states);
    for (const std::uint32_t s : {0U, 1U}) CHECK(buffer.acquire(s));
    buffer.end_epoch();
    CHECK_FALSE(buffer.commit_wanted());
}

TEST_CASE("an epoch may be abandoned after any state: its changes are kept, and the next one finds all rows") {
    const temporary_directory directory;
    const row_partitioning partitioning{60, 6};
    epoch_plan states;
    for (partition_id p = 0; p < partitioning.partitions; ++p) states.push_back({{p}, {}});
    for (const std::uint32_t slots : {2U, 6U})
        for (std::uint32_t trained = 0; trained <= states.size(); ++trained) {
            CAPTURE(slots);
            CAPTURE(trained);
            const auto rows = make_rows(directory / "rows", partitioning, {4, 0}, 6);
            memory_budget budget;
            partition_buffer buffer(*rows, {.resident_partitions = slots, .prefetch = 1}, budget);
            for (const std::uint32_t until : {trained, static_cast<std::uint32_t>(states.size())}) {
                buffer.begin_epoch(states);
                for (std::uint32_t s = 0; s < until; ++s) {
                    const auto lease = buffer.acquire(s);
                    REQUIRE(lease);
                    (**lease)[static_cast<node_id>(partitioning.begin(s))][0] += 1000;
                }
                CHECK(test::code_of([&] { buffer.begin_epoch(states); }) == errc::invalid_argument); // end it first
                buffer.end_epoch();
            }
            buffer.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
                const float added = first / partitioning.size(0) < trained ? 2000 : 1000;
                CHECK(block(0, 0) == static_cast<float>(first) + added);
            });
        }
}

TEST_CASE("no epoch begins while changes of the last one wait for a commit") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {40, 4}, {4, 0}, 1); // one spare slot too few: each write waits
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 1, .prefetch = 0}, budget);
    buffer.begin_epoch(epoch_plan{{{0}, {}}});
    {
        const auto lease = buffer.acquire(0);
        REQUIRE(lease);
        (**lease)[0][0] = 7;
    }
    buffer.end_epoch();
    REQUIRE(buffer.commit_wanted());
    const auto first_row = [&] {
        float found = 0;
        buffer.for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
            if (first == 0) found = block(0, 0);
        });
        return found;
    };
    CHECK(test::code_of([&] { (void)first_row(); }) == errc::invalid_argument);
    buffer.flush();
    buffer.committed();
    buffer.end_epoch();
    CHECK(first_row() == 7);
}

TEST_CASE("a failed load is a typed error of the next call, and the buffer can be destroyed") {
    const temporary_directory directory;
    const row_partitioning partitioning{100, 4};
    const auto rows = make_rows(directory / "rows", partitioning, {2, 0}, 4);
    std::filesystem::resize_file(rows->path(), 4096); // truncated
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 2, .prefetch = 1}, budget);
    buffer.begin_epoch(epoch_plan{{{2, 3}, {}}});
    CHECK_THROWS((void)buffer.acquire(0));
}

TEST_CASE("a flipped bit in a partition is an error that names file and place, never a returned row") {
    const temporary_directory directory;
    const row_partitioning partitioning{1000, 2};
    const auto rows = make_rows(directory / "rows", partitioning, {8, 0}, 2);
    {
        std::fstream file(rows->path(), std::ios::in | std::ios::out | std::ios::binary);
        const auto slot = static_cast<std::streamoff>(rows->slots()[1].value() * rows->slot_bytes());
        file.seekg(slot + 100);
        const char flipped = static_cast<char>(file.get() ^ 4);
        file.seekp(slot + 100);
        file.put(flipped);
    }
    auto to = aligned_buffer<float>::zeroed(rows->slot_bytes() / sizeof(float));
    CHECK_NOTHROW(rows->read(0, to.bytes()));
    try {
        rows->read(1, to.bytes());
        FAIL("not detected");
    } catch (const error& e) {
        CHECK(e.code() == errc::corrupt);
        CHECK(e.place().path == rows->path());
        CHECK(std::string(e.what()).find("partition 1") != std::string::npos);
    }
}

TEST_CASE("a state with more partitions than slots is refused") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {100, 4}, {2, 0}, 4);
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 2, .prefetch = 0}, budget);
    CHECK_THROWS_AS(buffer.begin_epoch(epoch_plan{{{0, 1, 2}, {}}}), error);
}

TEST_CASE("a buffer that does not fit the budget is refused with numbers before any allocation") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {100, 4}, {2, 0}, 4);
    memory_budget budget(rows->slot_bytes());
    CHECK_THROWS_AS(partition_buffer(*rows, {.resident_partitions = 2, .prefetch = 0}, budget), over_budget);
}

TEST_CASE("a buffer whose thread is refused ends its other thread and reports it") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {16, 2}, {4, 0}, 2);
    int granted = 0;
    for (bool made = false; !made; ++granted) {
        CAPTURE(granted);
        memory_budget budget;
        const gneiss::test::grant_threads some(granted);
        try {
            const partition_buffer buffer(*rows, {.resident_partitions = 1, .prefetch = 1}, budget);
            made = true;
        } catch (const std::system_error& e) {
            CHECK(e.code() == std::errc::resource_unavailable_try_again);
            CHECK(budget.used() == 0);
        }
        CHECK(some.refused() == (made ? 0 : 1));
    }
    CHECK(granted == 3); // 0 to 2: one thread loads and one writes
}

TEST_CASE("states are acquired in order, inside an epoch and its plan; anything else is refused at once, and the epoch "
          "goes on") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {100, 4}, {2, 0}, 4);
    memory_budget budget;
    for (const std::uint32_t resident : {2U, 4U}) { // with swaps, and with all resident
        CAPTURE(resident);
        partition_buffer buffer(*rows, {.resident_partitions = resident, .prefetch = 1}, budget);
        const auto code = [&](std::uint32_t state) { return test::code_of([&] { (void)buffer.acquire(state); }); };
        CHECK(code(0) == errc::invalid_argument); // no epoch
        const epoch_plan plan{{{0, 1}, {}}, {{1, 2}, {}}, {{2, 3}, {}}};
        CHECK(test::code_of([&] { buffer.begin_epoch(plan, 4); }) == errc::invalid_argument);
        buffer.begin_epoch(plan);
        CHECK(code(99) == errc::invalid_argument);
        CHECK(code(2) == errc::invalid_argument); // skips
        for (std::uint32_t s = 0; s < 3; ++s) {
            CHECK(buffer.acquire(s));
            CHECK(code(s) == errc::invalid_argument); // again
        }
        CHECK(code(3) == errc::invalid_argument);
        buffer.end_epoch();
        CHECK(code(0) == errc::invalid_argument);
        buffer.begin_epoch(plan, 2);
        CHECK(code(0) == errc::invalid_argument);
        CHECK(buffer.acquire(2));
        buffer.end_epoch();
    }
    CHECK(
        test::code_of([&] { partition_buffer(*rows, {.resident_partitions = 0}, budget); }) == errc::invalid_argument);
}

TEST_CASE(
    "an epoch that reads gives no rows to write, one that updates gives both; a row that is not resident is an error") {
    const temporary_directory directory;
    const auto rows = make_rows(directory / "rows", {100, 4}, {2, 0}, 4);
    memory_budget budget;
    partition_buffer buffer(*rows, {.resident_partitions = 2, .prefetch = 1}, budget);
    const epoch_plan plan{{{0, 1}, {}}, {{2, 3}, {}}};
    static_assert(std::is_const_v<std::remove_reference_t<decltype((*std::declval<read_lease>())[0][0])>>);
    buffer.begin_epoch(plan, 0, lease_use::read);
    CHECK(test::code_of([&] { (void)buffer.acquire(0); }) == errc::invalid_argument);
    {
        const std::optional<read_lease> lease = buffer.acquire_read(0);
        CHECK((**lease)[7][1] == 1007);
        for (const node_id absent : {60U, 100U, 5000U})
            CHECK(test::code_of([&] { (void)(**lease)[absent]; }) == errc::out_of_range);
        std::vector<float> memory(2);
        const std::vector<node_id> ids{1, 2};
        CHECK(test::code_of([&] { gather_rows(serial_executor{}, **lease, ids, {memory.data(), 1, 2}); }) ==
            errc::invalid_argument);
    }
    buffer.end_epoch();
    const std::uint64_t written = rows->statistics().written_bytes;
    buffer.begin_epoch(plan);
    CHECK(buffer.acquire_read(0)); // changes nothing: its partitions are not written
    (**buffer.acquire(1))[60][0] = -1;
    buffer.end_epoch();
    CHECK(rows->statistics().written_bytes == written + 2 * rows->bytes_of(2));
}

TEST_CASE("partitions, slots and memory that do not exist, and files of no rows, are refused") {
    const temporary_directory directory;
    const row_partitioning partitioning{100, 4};
    const auto rows = make_rows(directory / "rows", partitioning, {2, 0}, 4);
    std::vector<std::byte> memory(static_cast<std::size_t>(rows->slot_bytes()));
    const auto code = [](auto call) { return test::code_of(call); };
    CHECK(code([&] { rows->read(4, memory); }) == errc::invalid_argument);
    CHECK(code([&] { rows->read(0, std::span(memory).first(8)); }) == errc::invalid_argument);
    CHECK(code([&] { rows->read_blocks(0, 1, memory); }) == errc::invalid_argument);
    CHECK(code([&] { (void)rows->begin_write(4, 0); }) == errc::invalid_argument);
    CHECK(code([&] { rows->write(0, disk_slot{8}, memory); }) == errc::invalid_argument);
    CHECK(code([&] { rows->write(0, disk_slot{0}, std::span(memory).first(8)); }) == errc::invalid_argument);
    any_engine engine = engines()();
    const auto created = [&](const row_partitioning& p, const row_layout& l) {
        return code([&] { embedding_file::create(engine, directory / "none", p, l, 1); });
    };
    CHECK(created({100, 0}, {2, 0}) == errc::invalid_argument);
    CHECK(created({100, 4}, {0, 0}) == errc::invalid_argument);
    CHECK(created({std::uint64_t{1} << 61, 4}, {4, 4}) == errc::out_of_range);
    CHECK_FALSE(std::filesystem::exists(directory / "none"));
}

} // namespace test_storage_embedding_partition_buffer
