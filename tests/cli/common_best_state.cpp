#include "kit/report/best_state.hpp"

#include <doctest/doctest.h>

#include "support/temporary_directory.hpp"

#include <gneiss/core/error.hpp>

#include <cstddef>
#include <fstream>
#include <set>
#include <string>

namespace test_cli_common_best_state {

using namespace programs;
namespace fs = std::filesystem;

namespace {

gneiss::checkpoint numbered(std::uint64_t generation) {
    return {.generation = generation,
        .configuration_hash = 0,
        .dataset_hash = 0,
        .layout = {},
        .partitioning = {.nodes = 0, .partitions = 0},
        .disk_slots = {},
        .slots = {},
        .row_checksums = {},
        .position = {10 * generation, {}},
        .sections = {}};
}
best_metrics metrics_of(std::uint64_t n) {
    return {
        .valid = {{"accuracy", 0.1 * static_cast<double>(n)}}, .test = {{"accuracy", 0.01 * static_cast<double>(n)}}};
}
row_writer rows_saying(std::uint64_t n) {
    return [n](const fs::path& path, gneiss::checkpoint& names) {
        CHECK_FALSE(fs::exists(path));
        std::ofstream(path) << n;
        names.disk_slots = static_cast<std::uint32_t>(n);
    };
}
/// True if `file` is state n: its checkpoint, its rows and its metrics.
bool is_state(const fs::path& file, std::uint64_t n) {
    const gneiss::checkpoint saved = gneiss::load_checkpoint(file);
    std::string text;
    std::ifstream(rows_of(saved, file.parent_path(), "rows.bin")) >> text;
    return saved.generation == n && saved.disk_slots == n && text == std::to_string(n) &&
        best_state_in(file, 1 << 20) == kept_state{10 * n, metrics_of(n)};
}
std::set<std::string> names_in(const fs::path& directory) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename().string());
    return names;
}

} // namespace

TEST_CASE("the best state is the last one kept, with its epoch, its rows and metrics, and no other remains") {
    const gneiss::test::temporary_directory folder;
    const fs::path file = folder / "best/checkpoint.bin";
    CHECK_FALSE(best_state_in(file, 1 << 20));
    for (std::uint64_t n = 1; n < 5; ++n) {
        keep_best(file, numbered(n), metrics_of(n), rows_saying(n));
        CHECK(is_state(file, n));
        CHECK(names_in(folder / "best").size() == 2);
    }
    keep_best(file, numbered(9), metrics_of(9));
    CHECK(best_state_in(file, 1 << 20) == kept_state{90, metrics_of(9)});
    CHECK(names_in(folder / "best") == std::set<std::string>{"checkpoint.bin"});
}

TEST_CASE("if keeping a state fails at any point, the previous one remains with its rows and metrics") {
    const gneiss::test::temporary_directory folder;
    const fs::path file = folder / "best/checkpoint.bin";
    keep_best(file, numbered(1), metrics_of(1), rows_saying(1));
    SUBCASE("while its rows are written") {
        CHECK_THROWS_AS(keep_best(file, numbered(2), metrics_of(2),
                            [](const fs::path& path, gneiss::checkpoint&) {
                                std::ofstream(path) << "half";
                                throw gneiss::io_error(ENOSPC, "cannot write", {.path = path});
                            }),
            gneiss::io_error);
    }
    SUBCASE("while its checkpoint is written") {
        fs::create_directory(folder / "best/.checkpoint.bin.tmp"); // in the way
        CHECK_THROWS_AS(keep_best(file, numbered(2), metrics_of(2), rows_saying(2)), gneiss::io_error);
        fs::remove_all(folder / "best/.checkpoint.bin.tmp");
    }
    SUBCASE("in a process that has ended") {
        std::ofstream(folder / "best/rows-7.bin") << "half";
        CHECK(is_state(file, 1));
        keep_best(file, numbered(2), metrics_of(2), rows_saying(2));
        CHECK(is_state(file, 2));
        CHECK(names_in(folder / "best").size() == 2);
        return;
    }
    CHECK(is_state(file, 1));
    CHECK(names_in(folder / "best").size() == 2);
}

TEST_CASE("states of earlier versions have their rows in rows.bin and no metrics of their own") {
    const gneiss::test::temporary_directory folder;
    const fs::path file = folder / "best/checkpoint.bin";
    fs::create_directory(folder / "best");
    gneiss::save_checkpoint(file, numbered(1));
    std::ofstream(folder / "best/rows.bin") << 1;
    CHECK_FALSE(best_state_in(file, 1 << 20));
    CHECK(rows_of(gneiss::load_checkpoint(file), folder / "best", "rows.bin") == folder / "best/rows.bin");
    keep_best(file, numbered(2), metrics_of(2), rows_saying(2));
    CHECK(is_state(file, 2));
    CHECK(names_in(folder / "best").size() == 2);
}

} // namespace test_cli_common_best_state
