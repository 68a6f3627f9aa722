// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gneiss/core/error.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/engine/threads.hpp>

namespace gneiss {

/// An engine that may or may not work on this machine.
struct engine_candidate {
    std::string name;    ///< the name that users pass
    engine_factory make; ///< throws if the engine cannot be set up
};

/// The chosen engine, and the reason, for display.
struct engine_choice {
    engine_factory make; ///< each I/O thread makes its own engine
    std::string name;    ///< name of the engine
    std::string reason;  ///< one line, e.g. "io_uring works here" or "uring: … Operation not permitted"
};

/// Returns the blocking-call engine as a candidate.
[[nodiscard]] inline engine_candidate threads_candidate(std::size_t depth = 24) {
    return {"threads", [depth] { return any_engine(threads_engine(depth)); }};
}

/// Reads a few bytes of a file that always exists through an engine. Throws errors of the engine, or `io_error`.
///
/// Containers and old kernels may grant a ring and refuse its use, so only a real read is proof.
inline void probe_engine(any_engine& engine, const std::filesystem::path& readable = "/proc/self/exe") {
    file probed(engine, readable);
    std::array<std::byte, 16> bytes{};
    const io_request request{io_operation::read, probed.handle(), 0, bytes.data(), bytes.size(), 1};
    if (engine.submit({&request, 1}) != 1) throw io_error(EAGAIN, "engine takes no request", {});
    io_completion done;
    if (engine.wait({&done, 1}, 1) != 1) throw io_error(EIO, "engine completes no request", {});
    if (done.result < 0) throw io_error(static_cast<int>(-done.result), "engine cannot read", {.path = readable});
    if (done.result == 0) throw io_error(EIO, "engine reads nothing", {.path = readable});
}

/// Chooses an engine by name, or for "auto" the first candidate that passes a real read.
///
///     any_engine engine = choose_engine("auto", {uring_candidate(), threads_candidate()}).make();
///
/// Errors: `error` (invalid_argument) for a name that is not among the candidates, `error` (unsupported) with the text
/// of all refusals if none works. Cost: one engine and one read of 16 bytes per candidate tried. Thread-safe.
[[nodiscard]] inline engine_choice choose_engine(
    std::string_view name, const std::vector<engine_candidate>& candidates) {
    std::string refusals, known;
    for (const engine_candidate& candidate : candidates) {
        known += (known.empty() ? "" : ", ") + candidate.name;
        if (name != "auto" && name != candidate.name) continue;
        try {
            any_engine engine = candidate.make();
            probe_engine(engine);
        } catch (const std::exception& e) {
            refusals += (refusals.empty() ? "" : "; ") + candidate.name + ": " + e.what();
            continue;
        }
        std::string reason = name == "auto" ? "first that works here" : "requested";
        if (!refusals.empty()) reason = refusals;
        return {candidate.make, candidate.name, std::move(reason)};
    }
    if (refusals.empty())
        throw error(errc::invalid_argument, "no engine '" + std::string(name) + "'; there are auto, " + known);
    throw error(errc::unsupported, "no engine works here: " + refusals);
}

} // namespace gneiss
