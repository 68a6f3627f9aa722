// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "support/program.hpp"

namespace gneiss::test {

/// A workshop whose program is a trainer.
struct training_workshop : workshop {
    using workshop::workshop;

    /// Trains and returns run.json.
    [[nodiscard]] nlohmann::json train(const std::string& arguments) const {
        const program_outcome got = run("train " + arguments + " --quiet --json");
        CAPTURE(arguments);
        CAPTURE(got.err);
        REQUIRE(got.code == 0);
        return nlohmann::json::parse(got.out);
    }
    /// Returns the probabilities that a run predicts for all nodes, bit for bit.
    [[nodiscard]] std::string predictions(const std::string& name, const std::string& program = "") const {
        std::filesystem::remove_all(*this / "exported");
        succeed("export " + name + " --out exported --what predictions", program);
        return read("exported/predictions.npy");
    }
};

} // namespace gneiss::test
