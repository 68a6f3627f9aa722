#pragma once

#include <doctest/doctest.h>

#include <string>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

// Trainers with --device cuda on the emulator: programs emulated-gneiss-NAME, whose device is one CPU thread that runs
// every kernel.
namespace test_programs_device {

/// A dataset "data" of communities with features, in three partitions.
struct device_workshop : gneiss::test::workshop {
    device_workshop() : workshop("emulated-gneiss-mariusgnn") {
        const auto result = run("generate planted --nodes 200 --edges 1200 --classes 4 --undirected --partitions 3 "
                                "--out data --seed 5 --task node "
                                "--num-features 8 --feature-signal 2 --train-fraction .3",
            "gneiss-data");
        CAPTURE(result.err);
        REQUIRE(result.code == 0);
    }
    /// Runs a trainer and returns run.json.
    [[nodiscard]] nlohmann::json train(const std::string& trainer, const std::string& arguments) const {
        const auto got = run("train data " + arguments + " --quiet --json", trainer);
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    }
};

} // namespace test_programs_device
