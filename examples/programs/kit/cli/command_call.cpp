// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/command_call.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace programs {
namespace {

thread_local command_call* of_thread = nullptr;

} // namespace

command_call::command_call(call_events events, std::stop_token stop)
    : events_(std::move(events)),
      stop_(std::move(stop)) {
    if (of_thread != nullptr) throw std::logic_error("two command_calls at once on a thread");
    of_thread = this;
}

command_call::~command_call() { of_thread = nullptr; }

command_call* command_call::current() noexcept { return of_thread; }

void command_call::message(std::string_view text) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    const std::scoped_lock lock(mutex_);
    if (events_.on_message) events_.on_message(std::string(text));
}

void command_call::warn(std::string_view text) {
    const std::scoped_lock lock(mutex_);
    if (std::ranges::find(warnings_, text) != warnings_.end()) return;
    warnings_.emplace_back(text);
    if (events_.on_warning) events_.on_warning(warnings_.back());
}

std::vector<std::string> command_call::warnings() const {
    const std::scoped_lock lock(mutex_);
    return warnings_;
}

} // namespace programs
