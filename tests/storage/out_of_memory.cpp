// Fails the N-th allocation: work in progress ends with an error or is right, and never hangs.
#include "support/replaced_new.hpp"

#include "storage/buckets.hpp"
#include "storage/embedding_rows.hpp"
#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/external_sort.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace test_storage_out_of_memory {

using namespace gneiss;
using storage_test::all_engines;
using gneiss::test::fail_allocation;
using gneiss::test::fail_each_allocation;
using gneiss::test::temporary_directory;

TEST_CASE("io_queue: an operation whose allocation failed is not outstanding, and others complete") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines(4)) {
        CAPTURE(name);
        constexpr std::size_t part = 1000, parts = 40;
        std::vector<std::byte> written(part * parts), read(part * parts);
        for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 / 3);
        const auto path = folder / name;
        const auto work = [&](io_queue& queue, file& target) {
            for (std::size_t i = 0; i < parts; ++i) queue.write(target, i * part, std::span(written).subspan(i * part, part), i);
            queue.sync(target, parts);
            queue.drain();
            for (std::size_t i = 0; i < parts; ++i) queue.read(target, i * part, std::span(read).subspan(i * part, part), i);
            std::size_t done = 0;
            while (queue.next_done()) ++done;
            return done == parts && read == written;
        };
        const std::uint64_t failed = fail_each_allocation(
            [&] {
                any_engine engine = engines();
                file target(engine, path, {.write = true, .create = true, .truncate = true});
                io_queue queue(engine, {.piece_bytes = 512});
                bool right = false;
                try {
                    right = work(queue, target);
                } catch (const std::bad_alloc&) {
                    queue.drain(); // for earlier requests
                    CHECK(queue.outstanding() == 0);
                    std::ranges::fill(read, std::byte{});
                    CHECK(work(queue, target));
                    throw;
                }
                CHECK(right);
            },
            [&](std::uint64_t at, bool threw) {
                CAPTURE(at);
                if (!threw) CHECK(read == written);
                std::ranges::fill(read, std::byte{});
            });
        MESSAGE(name, ": ", failed);
    }
}

namespace {

const row_partitioning partitioning{37, 4};
constexpr row_layout layout{.dim = 3, .state = 2};

/// Rows that hold the number of the checkpoint that names them.
struct small_run {
    engine_factory engines;
    std::filesystem::path rows, saved;

    void save(const embedding_file& file, std::uint64_t generation) const {
        save_checkpoint(saved, {.generation = generation, .layout = layout, .partitioning = partitioning, .disk_slots = file.disk_slots(),
                                   .slots = file.slots(), .row_checksums = file.checksums(), .position = {}, .sections = {}});
    }
    [[nodiscard]] embedding_file open() const {
        const checkpoint c = load_checkpoint(saved);
        return {engines, rows, partitioning, layout, c.slots, c.disk_slots, c.row_checksums};
    }
    void begin() const {
        any_engine engine = engines();
        embedding_file::create(engine, rows, partitioning, layout, 4);
        embedding_file file(engines, rows, partitioning, layout, 4);
        file.fill([](std::uint64_t, matrix_view<float> to) { std::fill_n(to.data(), to.rows() * to.columns(), 1.0F); });
        file.sync();
        save(file, 1);
    }
    /// Continues from checkpoint 1 to checkpoint 2; with `keep`, all partitions stay in memory.
    void go_on(bool keep) const {
        embedding_file file = open();
        memory_budget budget;
        partition_buffer buffer(file, {.resident_partitions = keep ? 4U : 2U, .prefetch = 1}, budget);
        epoch_plan states(4);
        for (partition_id p = 0; p < 4; ++p) states[p].resident = p == 3 ? std::vector<partition_id>{3} : std::vector<partition_id>{p, p + 1};
        storage_test::add_one_to_all(buffer, states);
        buffer.flush();
        save(file, 2);
        buffer.committed();
        buffer.for_each_block([](std::uint64_t, matrix_view<const float> block) {
            for (std::size_t i = 0; i < block.rows(); ++i) REQUIRE(block[i][0] == 2);
        });
    }
    [[nodiscard]] bool whole() const {
        const auto generation = static_cast<float>(load_checkpoint(saved).generation);
        embedding_file file = open();
        memory_budget budget;
        partition_buffer buffer(file, {.resident_partitions = 1, .prefetch = 1}, budget);
        bool right = true;
        buffer.for_each_block([&](std::uint64_t, matrix_view<const float> block) {
            for (std::size_t i = 0; i < block.rows(); ++i) right = right && std::ranges::all_of(block[i], [&](float x) { return x == generation; });
        });
        return right;
    }
};

} // namespace

TEST_CASE("partition_buffer: an epoch without memory ends with an error, and the last checkpoint is intact") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines(4))
        for (const bool keep : {false, true}) {
            CAPTURE(name);
            CAPTURE(keep);
            const small_run run{engines, folder / "rows", folder / "checkpoint"};
            run.begin();
            std::uint64_t throws = 0;
            const std::uint64_t failed = fail_each_allocation([&] { run.go_on(keep); },
                [&](std::uint64_t at, bool threw) {
                    CAPTURE(at);
                    throws += threw;
                    const std::uint64_t generation = load_checkpoint(run.saved).generation;
                    CHECK((threw || generation == 2));
                    CHECK(run.whole());
                    run.begin();
                });
            CHECK(throws > failed / 2);
            MESSAGE(name, ": ", failed);
        }
}

TEST_CASE("partition_buffer: a state refused for lack of memory can be requested again") {
    const small_run run{[disk = memory_file_system{}] { return any_engine(memory_engine(disk)); }, "rows", temporary_directory().path() / "checkpoint"};
    any_engine engine = run.engines();
    embedding_file::create(engine, run.rows, partitioning, layout, 4);
    embedding_file file(run.engines, run.rows, partitioning, layout, 4);
    file.fill([](std::uint64_t, matrix_view<float> to) { std::fill_n(to.data(), to.rows() * to.columns(), 1.0F); });
    memory_budget budget;
    for (std::uint64_t at = 1; at < 6; ++at) {
        CAPTURE(at);
        partition_buffer buffer(file, {.resident_partitions = 4, .prefetch = 0}, budget);
        epoch_plan states(1);
        states[0].resident = {0, 1, 2, 3};
        buffer.begin_epoch(states, 0, lease_use::read);
        (void)buffer.acquire(0); // loads everything: no other thread allocates
        buffer.end_epoch();
        buffer.begin_epoch(states, 0, lease_use::read);
        std::optional<state_lease> lease;
        {
            const fail_allocation one(at);
            try {
                lease = buffer.acquire(0);
            } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): requested again below
            }
        }
        if (!lease) lease = buffer.acquire(0);
        REQUIRE(lease);
        CHECK((**lease)[0][0] == 1);
        {
            const fail_allocation one(1);
            lease.reset(); // releases partitions, without allocating
        }
        buffer.end_epoch();
    }
}

TEST_CASE("external sort: an allocation failure throws, and no file remains") {
    const temporary_directory folder;
    std::vector<std::uint64_t> records(3000);
    for (std::size_t i = 0; i < records.size(); ++i) records[i] = mix64(i);
    auto expected = records;
    std::ranges::sort(expected);
    const tbb_executor threads(2);
    const auto sweep = [&](const auto& executor, std::uint64_t memory) {
        std::vector<std::uint64_t> sorted(records.size());
        std::size_t filled = 0;
        const std::uint64_t failed = fail_each_allocation(
            [&] {
                filled = 0;
                external_sorter<std::uint64_t, by_key<std::identity>, std::decay_t<decltype(executor)>> sorter(folder.path(), memory, {}, executor);
                sorter.push(records);
                sorter.for_each_block([&](std::span<const std::uint64_t> block) {
                    std::ranges::copy(block, sorted.begin() + static_cast<std::ptrdiff_t>(filled));
                    filled += block.size();
                });
            },
            [&](std::uint64_t at, bool threw) {
                CAPTURE(at);
                if (!threw) CHECK((filled == records.size() && sorted == expected));
                CHECK(std::filesystem::is_empty(folder.path()));
            });
        MESSAGE("with ", memory, " bytes: ", failed);
    };
    for (const std::uint64_t memory : {std::uint64_t{4096}, std::uint64_t{16384}, std::uint64_t{1} << 20}) {
        sweep(serial_executor{}, memory);
        sweep(threads, memory);
    }
}

TEST_CASE("edge_buffer over bucket_reader: states without memory end with an error, others are intact") {
    const temporary_directory folder;
    const bucket_layout buckets{{100, 4}, 3};
    std::vector<edge> edges(2000);
    random_stream draw(random_key{1, random_domain::user});
    for (edge& e : edges)
        e = {static_cast<node_id>(draw.below(100)), static_cast<relation_id>(draw.below(3)), static_cast<node_id>(draw.below(100))};
    const bucket_store store = gneiss::test::build(folder.path(), buckets, edges);
    std::ranges::sort(edges);
    epoch_plan states(4);
    for (partition_id p = 0; p < 4; ++p)
        for (partition_id q = 0; q < 4; ++q) states[p].edge_buckets.push_back({p, q});
    for (auto& s : states) s.resident = {0, 1, 2, 3};
    for (const bool all : {false, true})
        for (const auto& [name, engines] : all_engines(4)) {
            if (name == "memory") continue; // the files are on disk
            CAPTURE(name);
            std::vector<edge> seen(edges.size());
            std::size_t filled = 0;
            const std::uint64_t failed = fail_each_allocation(
                [&] {
                    filled = 0;
                    memory_budget budget;
                    bucket_reader reader(store, engines);
                    edge_buffer buffer(reader.source(), {.cache_all = all}, budget);
                    for (int epoch = 0; epoch < 1 + all; ++epoch) {
                        filled = 0;
                        buffer.begin_epoch(states);
                        for (std::uint32_t s = 0; s < 4; ++s) {
                            const auto here = buffer.acquire(s);
                            for (std::size_t b = 0; b < here->buckets(); ++b)
                                for (const edge& e : here->bucket(b)) seen[filled++] = e;
                        }
                    }
                },
                [&](std::uint64_t at, bool threw) {
                    CAPTURE(at);
                    if (threw) return;
                    std::ranges::sort(seen);
                    CHECK(filled == edges.size());
                    CHECK(seen == edges);
                });
            MESSAGE(name, ": ", failed);
        }
}

TEST_CASE("a directory that a destructor cannot remove for lack of memory remains, and the process continues") {
    const temporary_directory folder;
    const auto at = folder / "partial";
    const std::uint64_t failed = fail_each_allocation([&] { const removed_unless_renamed cleanup{at}; },
        [&](std::uint64_t, bool) { std::filesystem::create_directories(at / "a" / "b"); });
    CHECK(failed > 0);
}

} // namespace test_storage_out_of_memory
