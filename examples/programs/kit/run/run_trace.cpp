// SPDX-License-Identifier: Apache-2.0
#include "kit/run/run_trace.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include <gneiss/core/error.hpp>

namespace trainers {

void check_trace(const run_options& flags) {
    if (!flags.trace) return;
    const std::filesystem::path file = std::filesystem::absolute(*flags.trace).lexically_normal();
    if (flags.out &&
        file.parent_path() == (std::filesystem::absolute(*flags.out) / "").lexically_normal().parent_path())
        return;
    const bool is_new = !std::filesystem::exists(file);
    const int opened =
        ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
    if (opened < 0) throw gneiss::io_error(errno, "cannot write the trace", {.path = *flags.trace, .field = "--trace"});
    ::close(opened);
    std::error_code ignored;
    if (is_new) std::filesystem::remove(file, ignored);
}

std::vector<programs::plot::timeline_chart::row> run_trace::beginning() {
    recorder_.flush();
    return window_.rows();
}

void run_trace::close(run_reporter& live) {
    try {
        recorder_.close();
    } catch (const gneiss::io_error& e) {
        live.warn(e.what());
        return;
    }
    live.say("the trace is in " + recorder_.path().string() + "; ui.perfetto.dev opens it");
}

} // namespace trainers
