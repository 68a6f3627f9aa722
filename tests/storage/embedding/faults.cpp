// Rows and checkpoints on engines that fail at their N-th operation: the last checkpoint is always intact.
#include <gneiss/storage/embedding/partition_buffer.hpp>
#include <gneiss/storage/engine/faulty.hpp>
#include <gneiss/storage/io/checkpoint.hpp>

#include "storage/embedding_rows.hpp"
#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

namespace test_storage_embedding_faults {

using namespace gneiss;
using gneiss::test::temporary_directory;
using storage_test::all_engines;

namespace {

const row_partitioning partitioning{37, 4};
constexpr row_layout layout{.dim = 3, .state = 2};
constexpr std::uint32_t spare = 4;

/// A minimal run: every row holds the number of the checkpoint that names it.
struct tiny_run {
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
    void begin(const engine_factory& engines) const {
        any_engine engine = engines();
        embedding_file::create(engine, rows, partitioning, layout, spare);
        embedding_file file(engines, rows, partitioning, layout, spare);
        file.fill([](std::uint64_t, matrix_view<float> to) {
            for (std::size_t i = 0; i < to.rows(); ++i) std::ranges::fill(to[i], 1.0F);
        });
        file.sync();
        save(file, 1);
    }
    [[nodiscard]] embedding_file open(const engine_factory& engines) const {
        const checkpoint c = load_checkpoint(saved);
        return {engines, rows, partitioning, layout, c.slots, c.disk_slots, c.row_checksums};
    }
    /// Continues from checkpoint 1 to checkpoint 2, one partition in memory after the other.
    void go_on(const engine_factory& engines) const {
        embedding_file file = open(engines);
        memory_budget budget;
        partition_buffer buffer(file, {.resident_partitions = 1, .prefetch = 1}, budget);
        epoch_plan states(partitioning.partitions);
        for (partition_id p = 0; p < partitioning.partitions; ++p) states[p].resident = {p};
        storage_test::add_one_to_all(buffer, states);
        buffer.flush();
        save(file, 2);
        buffer.committed();
    }
    /// Checks that every row belongs to the last checkpoint; returns its generation.
    [[nodiscard]] std::uint64_t check(const engine_factory& engines) const {
        const std::uint64_t generation = load_checkpoint(saved).generation;
        embedding_file file = open(engines);
        memory_budget budget;
        partition_buffer buffer(file, {.resident_partitions = 1, .prefetch = 1}, budget);
        buffer.for_each_block([&](std::uint64_t, matrix_view<const float> block) {
            for (std::size_t i = 0; i < block.rows(); ++i)
                for (const float x : block[i]) REQUIRE(x == static_cast<float>(generation));
        });
        return generation;
    }
};

} // namespace

TEST_CASE(
    "if any operation of an epoch, a flush or a load fails, the last checkpoint is intact and the error has a type") {
    const temporary_directory folder;
    const tiny_run run{folder / "rows", folder / "checkpoint"};
    std::uint64_t runs = 0;
    for (const auto& [name, engines] : all_engines(4))
        for (const fault_kind kind : {fault_kind::device_error, fault_kind::no_space, fault_kind::short_transfer,
                 fault_kind::zero_read, fault_kind::interrupted, fault_kind::try_again, fault_kind::canceled})
            for (const bool sticky : {false, true})
                for (std::uint64_t at = 1;; ++at, ++runs) {
                    CAPTURE(name);
                    CAPTURE(static_cast<int>(kind));
                    CAPTURE(sticky);
                    CAPTURE(at);
                    run.begin(engines);
                    const auto injector = std::make_shared<fault_injector>(fault{kind, at, sticky, {}});
                    bool failed = false;
                    try {
                        run.go_on([&, make = engines] { return any_engine(faulty<any_engine>(make(), injector)); });
                    } catch (const io_error&) {
                        failed = true;
                    } catch (const error&) {
                        failed = true;
                    }
                    CHECK(run.check(engines) == (failed ? 1 : 2));
                    if (injector->injected() == 0) {
                        CHECK_FALSE(failed);
                        break;
                    }
                    REQUIRE(at < 1000);
                }
    MESSAGE(runs, " runs on ", all_engines().size(), " engines");
}

TEST_CASE("a failed write releases its slot: the number of free slots is unchanged") {
    const temporary_directory folder;
    const tiny_run run{folder / "rows", folder / "checkpoint"};
    for (const auto& [name, engines] : all_engines(4))
        for (const bool opening : {false, true}) { // the first write opens the file
            CAPTURE(name);
            CAPTURE(opening);
            run.begin(engines);
            const fault_targets only{.open = opening, .resize = false, .read = false, .write = !opening, .sync = false};
            const auto injector = std::make_shared<fault_injector>(fault{fault_kind::device_error, 1, false, only});
            embedding_file file =
                run.open([&, make = engines] { return any_engine(faulty<any_engine>(make(), injector)); });
            const auto floats = static_cast<std::size_t>(file.slot_bytes() / sizeof(float));
            auto zeros = aligned_buffer<float>::zeroed(floats), seen = aligned_buffer<float>::zeroed(floats);
            const std::optional<disk_slot> first = file.begin_write(0, 0);
            REQUIRE(first);
            CHECK_THROWS_AS(file.write(0, *first, zeros.bytes()), io_error);
            for (partition_id p = 0; p < partitioning.partitions; ++p) {
                const std::optional<disk_slot> slot = file.begin_write(p, 0);
                REQUIRE(slot);
                file.write(p, *slot, zeros.bytes());
                std::ranges::fill(seen.span(), 7.0F);
                file.read(p, seen.bytes());
                CHECK(std::ranges::all_of(seen.span(), [](float x) { return x == 0; }));
            }
            CHECK(injector->injected() == 1);
            CHECK(run.check(engines) == 1);
        }
}

TEST_CASE("after a failed sync nothing is written or synced again, and every later call reports it") {
    const temporary_directory folder;
    const tiny_run run{folder / "rows", folder / "checkpoint"};
    const engine_factory engines = [] { return any_engine(threads_engine(4)); };
    run.begin(engines);
    const fault_targets only_sync{.open = false, .resize = false, .read = false, .write = false};
    const auto injector = std::make_shared<fault_injector>(fault{fault_kind::device_error, 1, false, only_sync});
    embedding_file file = run.open([&] { return any_engine(faulty<any_engine>(engines(), injector)); });
    {
        memory_budget budget;
        partition_buffer buffer(file, {.resident_partitions = 4, .prefetch = 0}, budget);
        epoch_plan one_state(1);
        one_state[0].resident = {0, 1, 2, 3};
        buffer.begin_epoch(one_state);
        {
            const std::optional<state_lease> lease = buffer.acquire(0);
            REQUIRE(lease);
            (**lease)[5][0] = 7;
        }
        buffer.end_epoch();
        CHECK_THROWS_AS(buffer.flush(), io_error);
        const std::uint64_t written = file.statistics().writes;
        CHECK_THROWS_AS(buffer.flush(), io_error);
        CHECK_THROWS_AS(buffer.end_epoch(), io_error);
        CHECK(file.statistics().writes == written);
    }
    CHECK_THROWS_AS(file.sync(), io_error);
    CHECK_THROWS_AS((void)file.begin_write(0, 0), io_error);
    CHECK(injector->operations() == 1); // one sync reached the device, and failed
    CHECK(run.check(engines) == 1);
}

} // namespace test_storage_embedding_faults
