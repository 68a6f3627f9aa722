// SPDX-License-Identifier: Apache-2.0
#include "kit/run/row_store.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/file_system.hpp>

#include "kit/run/checkpoint.hpp"
#include "kit/run/link_evaluation.hpp"
#include "kit/run/open_run.hpp"
#include "kit/run/warm_start.hpp"

namespace trainers {

std::unique_ptr<gneiss::embedding_file> create_rows(const gneiss::engine_factory& engines,
    const std::filesystem::path& checkpoint, const training_plan& plan, const embedding_init& begin, run_reporter& live,
    const gneiss::tbb_executor& executor, const std::stop_token& stop) {
    const auto given = load_initial_embeddings(begin.file, plan.partitioning.nodes, plan.layout.dim);
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
        if (!given.values.empty())
            for (std::uint64_t i = 0; i < rows.rows(); ++i)
                std::ranges::copy(given.values.subspan(begin.data.place_of(first + i) * dim, dim), rows[i].begin());
        filled += rows.rows();
        live.step("first values", filled, plan.partitioning.nodes);
    };
    if (begin.warm != nullptr)
        begin.warm->fill_rows(*result, begin.data, engines, begin.warm_memory, initial, stop);
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
    return gneiss::open_saved_rows(engines, programs::rows_of(saved, checkpoint, rows_name), stored, saved, slots);
}

programs::row_writer best_rows(gneiss::partition_buffer& rows) {
    return [&](const std::filesystem::path& path, gneiss::checkpoint& names) {
        put_rows(names, *gneiss::copy_values(rows, path));
    };
}

} // namespace trainers
