// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "kit/cli/command_line.hpp"
#include "kit/graph/partitioners.hpp"
#include "kit/graph/partitioning.hpp"

namespace programs {

/// Flags of a partitioner: balance, and options that only some methods take.
struct partitioner_options {
    std::optional<std::string> balance{}, imbalance{}, label_cap{}; ///< nodes or edges; numbers or off
    std::optional<std::string> initial{};                           ///< partitioner or file whose assignment is refined
    partitioner_flags method{};

    /// Adds the flags that balance. Texts, here and below, describe defaults.
    void add_balance(command& to, const std::string& label_cap = "1.05 for gap, else off");
    /// Adds the flags of the methods.
    void add_method(command& to, const std::string& passes = "the partitioner's", const std::string& initial = "none");
    /// Returns the names of the given flags.
    [[nodiscard]] std::vector<std::string> given() const;
    /// Returns the file of `initial`, if it is one.
    [[nodiscard]] std::optional<std::filesystem::path> initial_file() const;
    /// Returns a text that is equal for equal flags.
    [[nodiscard]] std::string text() const;
    /// Sets these flags in a job. Throws usage_error for a flag that its method does not take, and for a value that is
    /// not one.
    void apply(partition_job& to) const;
};

} // namespace programs
