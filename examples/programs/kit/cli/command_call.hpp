// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kit/cli/machine.hpp"

namespace programs {

/// Observer of a command that is called as a function. Members may be empty. They are called one at a time, by any
/// thread of the command.
struct call_events {
    std::function<void(const std::string&)> on_message{}; ///< a line for people
    std::function<void(const std::string&)> on_warning{};
};

/// While one exists, commands that its thread runs by `command::call` use neither terminal nor signals: lines and
/// warnings go to the observer, the JSON result stays here, and an `interrupt_guard` passes the caller's stop on.
/// `--memory` limits what the call adds to the process. At most one at a time on a thread.
class command_call {
public:
    explicit command_call(call_events events = {}, std::stop_token stop = {});
    command_call(const command_call&) = delete;
    command_call& operator=(const command_call&) = delete;
    ~command_call();

    /// Returns that of this thread; null: none, as in a program.
    [[nodiscard]] static command_call* current() noexcept;

    /// Reports a line for people, without its line break. Thread-safe.
    void message(std::string_view text);
    /// Reports a warning, and keeps it. Thread-safe.
    void warn(std::string_view text);
    /// Sets the command's result.
    void conclude(nlohmann::ordered_json result) { result_ = std::move(result); }

    [[nodiscard]] const std::stop_token& stop() const noexcept { return stop_; }
    /// Returns the memory of the process as the call began.
    [[nodiscard]] const memory_use& outside() const noexcept { return outside_; }
    /// Returns the warnings so far, each once.
    [[nodiscard]] std::vector<std::string> warnings() const;
    /// Returns the result; null: the command has set none.
    [[nodiscard]] const nlohmann::ordered_json& result() const noexcept { return result_; }

private:
    call_events events_;
    std::stop_token stop_;
    memory_use outside_ = used_memory();
    mutable std::mutex mutex_;
    std::vector<std::string> warnings_;
    nlohmann::ordered_json result_;
};

} // namespace programs
