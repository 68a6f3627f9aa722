// SPDX-License-Identifier: Apache-2.0
#include "python_call.hpp"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace gneiss_python {

namespace nb = nanobind;

namespace {

/// Seconds between two looks for signals, in which nobody notices a delay and nothing is spent.
constexpr std::chrono::milliseconds signal_interval{50};

} // namespace

void python_call::run(const std::function<void()>& work, std::optional<nb::python_error>* raised) {
    std::exception_ptr failed;
    std::thread worker([&] {
        try {
            work();
        } catch (...) {
            failed = std::current_exception();
        }
        const std::scoped_lock lock(mutex_);
        done_ = true;
        changed_.notify_all();
    });
    for (bool done = false; !done;) {
        const std::function<void()>* request = nullptr;
        {
            const nb::gil_scoped_release released;
            std::unique_lock lock(mutex_);
            changed_.wait_for(lock, signal_interval, [&] { return done_ || request_ != nullptr; });
            request = request_;
            done = done_;
        }
        try {
            if (request != nullptr) (*request)();
            if (PyErr_CheckSignals() != 0) nb::raise_python_error();
        } catch (nb::python_error& error) {
            keep(std::move(error));
        }
        if (request == nullptr) continue;
        const std::scoped_lock lock(mutex_);
        request_ = nullptr;
        changed_.notify_all();
    }
    worker.join();
    if (raised_ && raised != nullptr && !failed)
        raised->emplace(std::move(*raised_));
    else if (raised_)
        throw std::move(*raised_);
    if (failed) std::rethrow_exception(failed);
}

void python_call::in_python(const std::function<void()>& use) {
    std::unique_lock lock(mutex_);
    request_ = &use;
    changed_.notify_all();
    changed_.wait(lock, [&] { return request_ == nullptr; });
}

void python_call::keep(nb::python_error&& error) {
    if (!raised_) raised_.emplace(std::move(error));
    const nb::gil_scoped_release released; // for stop callbacks that wait for a thread of the work
    stop_.request_stop();
}

} // namespace gneiss_python
