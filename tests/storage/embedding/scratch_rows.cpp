#include <gneiss/storage/embedding/scratch_rows.hpp>

#include "storage/intercepted_engine.hpp"
#include "storage/support.hpp"
#include "support/temporary_directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <vector>

namespace test_storage_embedding_scratch_rows {

using namespace gneiss;
using gneiss::test::temporary_directory;

namespace {

const row_partitioning partitioning{50, 7};
constexpr std::size_t dim = 3;

void put(scratch_rows& rows, partition_id p, float added = 0) {
    const matrix_view<float> to = rows.room(p);
    for (std::size_t i = 0; i < to.rows(); ++i)
        std::ranges::fill(to[i], static_cast<float>(partitioning.begin(p) + i) + added);
    rows.put(p);
}

bool holds(matrix_view<const float> block, std::uint64_t first) {
    for (std::size_t i = 0; i < block.rows(); ++i)
        if (std::ranges::any_of(block[i], [&](float x) { return x != static_cast<float>(first + i); })) return false;
    return true;
}

} // namespace

TEST_CASE("scratch rows read back as written, by block and by partition, and their file is removed with them") {
    const temporary_directory folder;
    std::vector<std::unique_ptr<scratch_rows>> all;
    all.push_back(std::make_unique<scratch_rows>(partitioning, dim));
    for (const auto& [name, engines] : storage_test::all_engines())
        all.push_back(std::make_unique<scratch_rows>(partitioning, dim, engines, folder.path()));
    for (const auto& rows : all) {
        for (partition_id p = 0; p < partitioning.partitions; ++p) put(*rows, p);
        for (int twice = 0; twice < 2; ++twice) {
            std::uint64_t next = 0;
            rows->for_each_block([&](std::uint64_t first, matrix_view<const float> block) {
                CHECK(first == next);
                CHECK(holds(block, first));
                next += block.rows();
            });
            CHECK(next == partitioning.nodes);
        }
        aligned_buffer<float> memory;
        for (partition_id p = partitioning.partitions; p-- > 0;)
            CHECK(holds(rows->read(p, memory), partitioning.begin(p)));
    }
    all.clear();
    CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("partitions are read while another one is being written") {
    const temporary_directory folder;
    const memory_file_system disk;
    storage_test::interception writing{.kind = io_operation::write, .during = {}};
    scratch_rows rows(
        partitioning, dim, [&] { return any_engine(storage_test::intercepted_engine(disk, writing)); }, folder.path());
    for (partition_id p = 0; p < partitioning.partitions; ++p) put(rows, p);
    bool right = true;
    writing.during = [&] {
        aligned_buffer<float> memory;
        for (partition_id p = 0; p < partitioning.partitions; ++p)
            if (p != 3) right = right && holds(rows.read(p, memory), partitioning.begin(p));
    };
    writing.armed = true;
    put(rows, 3, 1000);
    CHECK(right);
    aligned_buffer<float> memory;
    CHECK(rows.read(3, memory)(0, 0) == static_cast<float>(partitioning.begin(3)) + 1000);
}

} // namespace test_storage_embedding_scratch_rows
