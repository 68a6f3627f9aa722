// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kit/cli/terminal.hpp"
#include "kit/run/run_events.hpp"

namespace trainers {

/// Returns an observer that shows a run on a terminal: messages and warnings as lines, progress as the live line.
/// The warnings of this process so far are those before the run. `line` outlives the observer.
[[nodiscard]] run_events terminal_events(programs::progress& line);

} // namespace trainers
