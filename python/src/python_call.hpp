// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>

#include <nanobind/nanobind.h>

namespace gneiss_python {

/// A call from Python whose work runs on a thread of its own, without the GIL.
///
/// Meanwhile the calling thread runs Python's signal handlers, and functions that the work passes to `in_python`. An
/// exception that one of them raises, such as KeyboardInterrupt, requests a stop; the work ends as it does at a stop.
class python_call {
public:
    /// Runs `work` to its end. Rethrows the exception of Python, if there is one and `raised` is null; else the work's.
    /// Precondition: this thread has the GIL.
    void run(const std::function<void()>& work, std::optional<nanobind::python_error>* raised = nullptr);

    /// Runs `use` on the calling thread, with the GIL, and waits. Called by threads of the work, one at a time.
    void in_python(const std::function<void()>& use);

    [[nodiscard]] std::stop_token stop() const noexcept { return stop_.get_token(); }

private:
    /// Keeps the first exception, and requests a stop.
    void keep(nanobind::python_error&& error);

    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* request_ = nullptr; ///< of a thread of the work
    bool done_ = false;
    std::stop_source stop_;
    std::optional<nanobind::python_error> raised_; ///< used by the calling thread alone
};

} // namespace gneiss_python
