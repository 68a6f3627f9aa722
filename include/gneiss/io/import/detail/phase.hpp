// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include <gneiss/io/import/detail/journal.hpp>
#include <gneiss/io/import/detail/names.hpp>
#include <gneiss/io/import/detail/state.hpp>

namespace gneiss::importing {

/// A step of an import. It reads the results of earlier phases in the state, the journal and the directory.
struct import_phase {
    std::string_view name; ///< name in progress reports
    journal_mark done{}; ///< recorded after `run`; without an entry, `run` is cheap to repeat or publishes the dataset
    std::function<void(import_state&)> run; ///< the work
};

/// Runs the phases in order, skips those that the journal marks as done, and records each.
///
/// A hash collision of two names restarts the import with another seed, at most 8 times. Exceptions of a phase pass
/// through; earlier phases stay recorded.
inline void run_phases(import_state& state, std::span<const import_phase> phases) {
    for (std::size_t next = 0; next < phases.size();) {
        const import_phase& phase = phases[next++];
        if (state.journal.finished(phase.done)) continue;
        try {
            phase.run(state);
            state.bad.check();
            if (!phase.done.entry.empty()) state.bad.save(state.directory / skipped_name);
        } catch (const hash_collision&) {
            if (!state.start_over()) throw;
            next = 0;
            continue;
        }
        state.journal.finish(phase.done);
        if (!phase.done.entry.empty() && state.resumable()) state.directory.keep(true);
    }
}

} // namespace gneiss::importing
