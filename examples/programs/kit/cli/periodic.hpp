// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

namespace programs {

/// Calls a function at once and then at even intervals, from a thread of its own, until it is destroyed. An exception
/// of the function ends that call only: such work never ends a run. Without a thread nothing is called.
class periodic_task {
public:
    periodic_task(std::function<void()> task, std::chrono::duration<double> every)
        : task_(std::move(task)),
          every_(every) {
        try {
            thread_ = std::jthread([this](const std::stop_token& stopped) { repeat(stopped); });
        } catch (const std::system_error&) { // the system grants no thread
        }
    }
    periodic_task(const periodic_task&) = delete;
    periodic_task& operator=(const periodic_task&) = delete;

    /// Ends the thread after the call in progress. Later calls do nothing.
    void stop() {
        if (!thread_.joinable()) return;
        thread_.request_stop();
        thread_.join();
    }
    ~periodic_task() { stop(); }

private:
    void repeat(const std::stop_token& stopped) {
        std::unique_lock lock(mutex_);
        while (!stopped.stop_requested()) {
            try {
                task_();
            } catch (...) { // the next call may succeed
            }
            wake_.wait_for(lock, stopped, every_, [] { return false; });
        }
    }

    std::function<void()> task_;
    std::chrono::duration<double> every_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread thread_;
};

} // namespace programs
