// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "kit/cli/command_line.hpp"

namespace trainers {

/// Values of the flags of `train`, independent of any command line: the content of config.toml, run.json and
/// checkpoints. `Options` has `add_to(programs::command&)`.
template <class Options>
class configuration {
public:
    configuration(const std::string& program, Options values)
        : flags(std::move(values)),
          line_(program, ""),
          command_(line_.add("train", "", {})) {
        flags.add_to(command_);
    }
    configuration(const configuration&) = delete;
    configuration& operator=(const configuration&) = delete;
    ~configuration() = default;

    Options flags;
    /// Returns the command with the flags' current values.
    [[nodiscard]] const programs::command& command() const noexcept { return command_; }

private:
    programs::command_line line_;
    programs::command& command_;
};

} // namespace trainers
