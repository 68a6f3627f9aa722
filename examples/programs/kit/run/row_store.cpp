// SPDX-License-Identifier: Apache-2.0
#include "kit/run/row_store.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/run/checkpoint.hpp"
#include "kit/run/link_evaluation.hpp"

namespace trainers {

std::unique_ptr<gneiss::embedding_file> create_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const training_plan& plan, const embedding_init& begin, run_reporter& live,
    const gneiss::tbb_executor& executor, const std::stop_token& stop) {
    const std::filesystem::path path = checkpoint / rows_name;
    (void)gneiss::make_directory(checkpoint);
    {
        gneiss::any_engine engine = engines();
        gneiss::embedding_file::create(engine, path, plan.partitioning, plan.layout, plan.spare);
    }
    gneiss::preallocate(path, plan.slot_bytes() * (std::uint64_t{plan.partitioning.partitions} + plan.spare));
    auto result = std::make_unique<gneiss::embedding_file>(engines, path, plan.partitioning, plan.layout, plan.spare);
    const std::size_t dim = plan.layout.dim;
    std::uint64_t filled = 0;
    const auto initial = [&](std::uint64_t first, gneiss::matrix_view<float> rows) {
        throw_if_stopped(stop); // nothing to save yet
        gneiss::initialize_rows(
            begin.values, begin.state, begin.seed, gneiss::embedding_kind::nodes, first, dim, rows, executor);
        if (begin.given != nullptr)
            for (std::uint64_t i = 0; i < rows.rows(); ++i)
                std::ranges::copy(
                    begin.given->elements<float>().subspan(begin.data.place_of(first + i) * dim, dim), rows[i].begin());
        filled += rows.rows();
        live.step("first values", filled, plan.partitioning.nodes);
    };
    if (begin.warm)
        begin.warm(*result, initial);
    else
        result->fill(initial);
    return result;
}

std::unique_ptr<gneiss::embedding_file> open_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const training_plan& plan, const gneiss::checkpoint& saved) {
    if (saved.partitioning.partitions != plan.partitioning.partitions || saved.layout != plan.layout)
        throw gneiss::error(gneiss::errc::config_mismatch, "the checkpoint has other rows or partitions",
            {.path = checkpoint / checkpoint_name});
    // This process may keep more partitions in memory than the one that made the file: each needs a slot at a
    // checkpoint.
    const std::uint32_t slots = saved.partitioning.partitions + plan.spare;
    if (slots > saved.disk_slots)
        gneiss::preallocate(programs::rows_of(saved, checkpoint, rows_name), slots * plan.slot_bytes());
    return open_rows(engines, checkpoint, plan.partitioning, saved, slots);
}

std::unique_ptr<gneiss::embedding_file> open_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const gneiss::row_partitioning& stored, const gneiss::checkpoint& saved,
    std::uint32_t slots) {
    if (saved.partitioning.nodes != stored.nodes || saved.partitioning.partitions == 0)
        throw gneiss::error(gneiss::errc::config_mismatch, "the checkpoint has rows of other nodes",
            {.path = checkpoint / checkpoint_name});
    const std::filesystem::path rows = programs::rows_of(saved, checkpoint, rows_name);
    const gneiss::row_partitioning partitioning = stored.in(saved.partitioning.partitions);
    const std::uint64_t bytes = std::filesystem::file_size(rows), row = saved.layout.bytes();
    const bool fits = row == 0 || partitioning.capacity() <= bytes / row; // else the bytes of a slot may exceed 64 bits
    if (!fits ||
        bytes / std::max<std::uint64_t>(gneiss::embedding_file::slot_bytes_of(partitioning, saved.layout), 1) <
            saved.disk_slots)
        throw gneiss::error(gneiss::errc::corrupt,
            fmt::format("is shorter than the {} slots that the checkpoint names", saved.disk_slots), {.path = rows});
    return std::make_unique<gneiss::embedding_file>(engines, rows, stored.in(saved.partitioning.partitions),
        saved.layout, saved.slots, std::max(slots, saved.disk_slots), saved.row_checksums);
}

programs::row_writer best_rows(
    const gneiss::engine_factory& engines, const training_plan& plan, gneiss::partition_buffer& rows) {
    return [&](const std::filesystem::path& path, gneiss::checkpoint& names) {
        const gneiss::row_layout values{plan.layout.dim, 0};
        {
            gneiss::any_engine engine = engines();
            gneiss::embedding_file::create(engine, path, plan.partitioning, values, 0);
        }
        gneiss::embedding_file copy(engines, path, plan.partitioning, values, 0);
        auto slot = gneiss::aligned_buffer<float>::zeroed(static_cast<std::size_t>(copy.slot_bytes() / sizeof(float)));
        gneiss::partition_id p = 0;
        rows.for_each_block([&](std::uint64_t, gneiss::matrix_view<const float> block) {
            for (std::size_t i = 0; i < block.rows(); ++i)
                std::ranges::copy(block[i], slot.data() + i * block.columns());
            const auto place = copy.begin_write(p, 0);
            copy.write(p, *place, slot.bytes());
            ++p;
        });
        copy.sync();
        put_rows(names, copy);
    };
}

void put_rows(gneiss::checkpoint& to, const gneiss::embedding_file& rows) {
    to.layout = rows.layout();
    to.partitioning = rows.partitioning();
    to.disk_slots = rows.disk_slots();
    to.slots = rows.slots();
    to.row_checksums = rows.checksums();
}

} // namespace trainers
