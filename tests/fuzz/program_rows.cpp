#include "fuzz/target.hpp"

#include <algorithm>
#include <vector>

#include <support/temporary_directory.hpp>

#include <gneiss/storage/engine/threads.hpp>

#include "kit/run/row_store.hpp"

namespace test_fuzz_program_rows {

using namespace gneiss;

static constexpr std::uint64_t nodes = 50;

/// Makes rows.bin, and the checkpoint that names it.
static checkpoint make(const std::filesystem::path& at, const engine_factory& engines) {
    const row_partitioning partitioning{.nodes = nodes, .partitions = 3};
    const row_layout layout{4, 4};
    any_engine engine = engines();
    embedding_file::create(engine, at / "rows.bin", partitioning, layout, 2);
    embedding_file rows(engines, at / "rows.bin", partitioning, layout, 2);
    rows.fill([](std::uint64_t first, matrix_view<float> values) {
        for (std::size_t i = 0; i < values.rows(); ++i) std::ranges::fill(values[i], static_cast<float>(first + i));
    });
    rows.sync();
    checkpoint saved;
    gneiss::put_rows(saved, rows);
    return saved;
}

/// A checkpoint with a right checksum and other counts, slots and sums: its rows are read as they were, or refused.
GNEISS_FUZZ_TARGET("program_rows", bytes) {
    static const test::temporary_directory at;
    static const engine_factory engines = [] { return any_engine(threads_engine(1)); };
    static const checkpoint whole = make(at.path(), engines);
    checkpoint saved = whole;
    while (!bytes.empty()) {
        const auto field = fuzz::take<std::uint8_t>(bytes);
        const auto value = fuzz::take<std::uint32_t>(bytes);
        const std::size_t at_slot = field / 8U;
        switch (field % 8) {
        case 0: saved.layout.dim = value; break;
        case 1: saved.layout.state = value; break;
        case 2: saved.partitioning.nodes = value; break;
        case 3: saved.partitioning.partitions = value; break;
        case 4: saved.disk_slots = value; break;
        case 5: saved.slots.resize(value % 8, disk_slot{value}); break;
        case 6:
            if (!saved.slots.empty()) saved.slots[at_slot % saved.slots.size()] = disk_slot{value};
            break;
        default: saved.row_checksums.resize(value % 8, value); break;
        }
    }
    save_checkpoint(at / "checkpoint.bin", saved);
    checkpoint loaded;
    if (!fuzz::accepted([&] { loaded = load_checkpoint(at / "checkpoint.bin"); })) return;
    (void)fuzz::accepted([&] {
        const auto rows = trainers::open_rows(engines, at.path(), {.nodes = nodes, .partitions = 3}, loaded);
        fuzz::property(rows->slot_bytes() <= std::filesystem::file_size(at / "rows.bin"), "a slot is in the file");
        auto slot = aligned_buffer<float>::zeroed(static_cast<std::size_t>(rows->slot_bytes() / sizeof(float)));
        for (partition_id p = 0; p < rows->partitioning().partitions; ++p) rows->read(p, slot.bytes());
    });
}

} // namespace test_fuzz_program_rows
