// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>

#include "support/program.hpp"

namespace gneiss::test {

/// One of gneiss's trainers and the flags of a small run, which makes the most kinds of files.
struct small_trainer {
    const char *program, *flags;
};
inline constexpr small_trainer small_ginex{
    "gneiss-ginex", "--layers sage:4,sage --fanout 3,3 --batch 20 --topology disk --feature-cache belady"};
inline constexpr small_trainer small_hanoi{
    "gneiss-hanoi", "--layers sage:4,sage --fanout 3,3 --batch 20 --partitioner random --partitions 4"};
inline constexpr small_trainer small_joestar{"gneiss-joestar",
    "--layers sage:4,sage --fanout 3,3 --batch 20 --first-stage pbs --partitions 4 --macro 2 --history-store disk"};

/// A dataset "data", a run "run" of a trainer, and both as they were in "kept".
struct trained_shop : workshop {
    std::string train; ///< command of the run

    explicit trained_shop(const small_trainer& of)
        : workshop(of.program),
          train("train data --epochs 1 --memory 256MiB --threads 1 --quiet --out run " + std::string(of.flags) + " ") {
        const bool links = std::string(of.program) == "gneiss-marius";
        REQUIRE(run("generate planted --nodes 120 --edges 600 --classes 3 --undirected --partitions 3 --seed 5 --out "
                    "data --threads 1 --memory 200M --quiet " +
                        std::string(links ? "--train-fraction .8" : "--task node --num-features 4 --train-fraction .3"),
                    "gneiss-data")
                    .code == 0);
        const auto trained = run(train);
        CAPTURE(trained.err);
        REQUIRE(trained.code == 0);
    }
    /// Copies both.
    void keep() const {
        std::filesystem::create_directory(*this / "kept");
        for (const char* name : {"data", "run"})
            std::filesystem::copy(*this / name, *this / "kept" / name, std::filesystem::copy_options::recursive);
    }
    /// Puts the copies in place, and removes "new".
    void restore() const {
        for (const char* copied : {"data", "run", "new"}) std::filesystem::remove_all(*this / copied);
        for (const char* copied : {"data", "run"})
            std::filesystem::copy(*this / "kept" / copied, *this / copied, std::filesystem::copy_options::recursive);
    }
    /// Checks that a command ended in a result or in one line.
    static void check_end(const program_outcome& got) {
        CAPTURE(got.err);
        CHECK((got.code == 0 || got.code == 1 || got.code == 2 || got.code == 3));
        const std::size_t error = got.err.rfind("error: ");
        CHECK((got.code == 0) == (error == std::string::npos));
        if (error != std::string::npos)
            CHECK(std::count(got.err.begin() + static_cast<std::ptrdiff_t>(error), got.err.end(), '\n') == 1);
    }
};

} // namespace gneiss::test
