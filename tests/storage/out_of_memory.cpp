// Fails the N-th allocation: work in progress ends with an error or is right, and never hangs.
#include "support/replaced_new.hpp"

#include "storage/buckets.hpp"
#include "storage/counting_engine.hpp"
#include "storage/embedding_rows.hpp"
#include "storage/rows.hpp"
#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <gneiss/core/executor/serial.hpp>
#include <gneiss/core/executor/tbb.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/adjacency/graph_buffer.hpp>
#include <gneiss/storage/edge/bucket_reader.hpp>
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/feature/extent_gather.hpp>
#include <gneiss/storage/io/checkpoint.hpp>
#include <gneiss/storage/io/external_sort.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>

namespace test_storage_out_of_memory {

using namespace gneiss;
using gneiss::test::fail_allocation;
using gneiss::test::fail_each_allocation;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

TEST_CASE("io_queue: an operation whose allocation failed is not outstanding, and others complete") {
    const temporary_directory folder;
    for (const auto& [name, engines] : all_engines(4)) {
        CAPTURE(name);
        constexpr std::size_t part = 1000, parts = 40;
        std::vector<std::byte> written(part * parts), read(part * parts);
        for (std::size_t i = 0; i < written.size(); ++i) written[i] = static_cast<std::byte>(i * 7 / 3);
        const auto path = folder / name;
        const auto work = [&](io_queue& queue, file& target) {
            for (std::size_t i = 0; i < parts; ++i)
                queue.write(target, i * part, std::span(written).subspan(i * part, part), i);
            queue.sync(target, parts);
            queue.drain();
            for (std::size_t i = 0; i < parts; ++i)
                queue.read(target, i * part, std::span(read).subspan(i * part, part), i);
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
        save_checkpoint(saved,
            {.generation = generation,
                .layout = layout,
                .partitioning = partitioning,
                .disk_slots = file.disk_slots(),
                .slots = file.slots(),
                .row_checksums = file.checksums(),
                .position = {},
                .sections = {}});
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
        for (partition_id p = 0; p < 4; ++p)
            states[p].resident = p == 3 ? std::vector<partition_id>{3} : std::vector<partition_id>{p, p + 1};
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
            for (std::size_t i = 0; i < block.rows(); ++i)
                right = right && std::ranges::all_of(block[i], [&](float x) { return x == generation; });
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
    const small_run run{[disk = memory_file_system{}] { return any_engine(memory_engine(disk)); }, "rows",
        temporary_directory().path() / "checkpoint"};
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
        (void)buffer.acquire_read(0); // loads everything: no other thread allocates
        buffer.end_epoch();
        buffer.begin_epoch(states, 0, lease_use::read);
        std::optional<read_lease> lease;
        {
            const fail_allocation one(at);
            try {
                lease = buffer.acquire_read(0);
            } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): requested again below
            }
        }
        if (!lease) lease = buffer.acquire_read(0);
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
                external_sorter<std::uint64_t, by_key<std::identity>, std::decay_t<decltype(executor)>> sorter(
                    folder.path(), memory, {}, executor);
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
        e = {static_cast<node_id>(draw.below(100)), static_cast<relation_id>(draw.below(3)),
            static_cast<node_id>(draw.below(100))};
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

TEST_CASE("io_queue: after a failed allocation, an operation does not throw the error of an earlier request") {
    const memory_file_system disk;
    constexpr std::size_t count = 1024; // an eighth of them finish in one wait
    std::uint64_t both = 0;
    (void)fail_each_allocation(
        [&] {
            const auto injector = std::make_shared<fault_injector>(
                fault{.kind = fault_kind::device_error, .at = 1, .on = {.open = false}});
            any_engine engine = faulty(memory_engine(disk, count), injector);
            file target(engine, "f", {.write = true, .create = true, .truncate = true});
            const std::vector<std::byte> bytes(count);
            io_queue queue(engine, {.piece_bytes = 512});
            try {
                for (std::size_t i = 0; i < count; ++i) queue.write(target, i, std::span(bytes).subspan(i, 1), i);
                queue.drain();
            } catch (const std::bad_alloc&) {
                if (injector->injected() == 0) throw; // it comes with the next operation
                ++both;
                queue.write(target, 0, bytes);
                CHECK_NOTHROW(queue.drain());
                throw;
            }
        },
        [](std::uint64_t at, bool threw) {
            CAPTURE(at);
            CHECK(threw); // the injected error, if none other
        });
    CHECK(both > 0);
}

TEST_CASE("extent_rows: after a failed allocation no request is in flight, and the source is usable") {
    const temporary_directory folder;
    const memory_file_system disk;
    const auto in_flight = std::make_shared<std::atomic<std::int64_t>>(0);
    const engine_factory engines = [&] {
        return any_engine(storage_test::counting_engine(any_engine(memory_engine(disk, 8)), in_flight));
    };
    const storage_test::rows_file file(engines, "rows", 200, 512);
    std::vector<std::vector<node_id>> batches(5);
    for (std::size_t b = 0; b < batches.size(); ++b)
        for (node_id id = static_cast<node_id>(b); id < 200; id += static_cast<node_id>(b + 2))
            batches[b].push_back(id);
    std::vector<storage_test::gathered_rows> to;
    for (const auto& ids : batches) to.emplace_back(ids.size(), 512);
    const auto work = [&](extent_rows& source) {
        source.expect({batches.size() - 1, [&](const auto& visit) {
                           for (std::size_t b = 1; b < batches.size(); ++b)
                               visit(b - 1, std::span<const node_id>(batches[b]));
                       }});
        for (std::size_t b = 0; b < batches.size(); ++b) {
            if (b != 0) source.select(b - 1);
            source.gather(batches[b], to[b].target());
        }
    };
    for (const bool two : {false, true}) {
        CAPTURE(two);
        const std::uint64_t failed = fail_each_allocation(
            [&] {
                memory_budget budget;
                extent_rows source(any_row_source(std::in_place_type<disk_rows>, engines, file.stored,
                                       gather_options{.coalesce_bytes = 0}, serial_executor{}, budget),
                    engines,
                    {.way = gather_way::scan,
                        .directory = folder.path(),
                        .memory = 64U << 10,
                        .least_piece = two ? 1U << 20 : 4096U},
                    serial_executor{}, budget);
                try {
                    work(source);
                } catch (...) {
                    CHECK(*in_flight == 0);
                    work(source);
                    throw;
                }
            },
            [&](std::uint64_t at, bool) {
                CAPTURE(at);
                CHECK(*in_flight == 0);
                for (std::size_t b = 0; b < batches.size() && at > 100; ++b) CHECK(to[b].equal(file, batches[b]));
            });
        CHECK(failed > 100);
    }
}

TEST_CASE("graph_buffer: a merge without memory leaves no read in flight for another thread") {
    const temporary_directory folder;
    std::vector<edge> edges(3000);
    random_stream draw(random_key{1, random_domain::user});
    for (edge& e : edges) e = {static_cast<node_id>(draw.below(100)), 0, static_cast<node_id>(draw.below(100))};
    const bucket_store store = gneiss::test::build(folder.path(), {{100, 5}, 1}, edges);
    const epoch_plan states{{{0, 1, 2}, {}}, {{1, 2, 4}, {}}, {{0, 2, 3, 4}, {}}};
    const graph_buffer_options options{.form = graph_form::csr};
    for (const auto& [name, plain] : all_engines(4)) {
        if (name == "memory") continue; // the files are on disk
        CAPTURE(name);
        const auto in_flight = std::make_shared<std::atomic<std::int64_t>>(0);
        const engine_factory engines = [&, make = plain] {
            return any_engine(storage_test::counting_engine(make(), in_flight));
        };
        const std::uint64_t failed = fail_each_allocation(
            [&] {
                memory_budget budget;
                graph_buffer graphs(store, engines, neighbor_direction::both,
                    graph_buffer::need(states, store, neighbor_direction::both, options).bytes, budget, options);
                graphs.begin_epoch(states);
                for (std::uint32_t s = 0; s < states.size(); ++s) {
                    try {
                        (void)graphs.acquire(s);
                    } catch (...) { // of the loading thread, which has ended
                        CHECK(*in_flight == 0);
                        throw;
                    }
                }
            },
            [&](std::uint64_t at, bool) {
                CAPTURE(at);
                CHECK(*in_flight == 0);
            });
        MESSAGE(name, ": ", failed);
    }
}

} // namespace test_storage_out_of_memory
