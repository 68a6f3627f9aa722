// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <gneiss/cuda/core/error.cuh>
#include <gneiss/cuda/core/recorder.cuh>

namespace gneiss::cuda {

class stream;

/// A point in a stream that others can wait for. Can be recorded repeatedly; an unrecorded event counts as passed.
class event {
public:
    /// `timed`: supports `milliseconds_since`, at a small cost per record. Throws `device_error`.
    explicit event(bool timed = false) {
        check(cudaEventCreateWithFlags(
                  &event_, cudaEventBlockingSync | (timed ? cudaEventDefault : cudaEventDisableTiming)),
            "making an event");
    }
    event(event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
    event& operator=(event&& other) noexcept {
        std::swap(event_, other.event_);
        return *this;
    }
    ~event() {
        if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
    }

    /// Returns CUDA's handle.
    [[nodiscard]] cudaEvent_t get() const noexcept { return event_; }

    /// Records the point after all current work of `in`.
    void record(cudaStream_t in) { check(cudaEventRecord(event_, in), "recording an event"); }
    /// Waits on the host; the thread sleeps, so that samplers and gathers have its core.
    void synchronize() const {
        detail::note(device_call::wait);
        check(cudaEventSynchronize(event_), "waiting for an event");
    }
    /// True if the device has passed the event.
    [[nodiscard]] bool passed() const {
        const cudaError_t result = cudaEventQuery(event_);
        if (result == cudaErrorNotReady) return false;
        check(result, "asking for an event");
        return true;
    }
    /// Returns the time from `start` to this. Both are timed and passed.
    [[nodiscard]] float milliseconds_since(const event& start) const {
        float milliseconds = 0;
        check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "time between events");
        return milliseconds;
    }

private:
    cudaEvent_t event_ = nullptr;
};

/// A queue of GPU work, executed in order; unordered with other streams except by events. Not thread-safe.
class stream {
public:
    /// Throws `device_error`.
    stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
    stream(stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
    stream& operator=(stream&& other) noexcept {
        std::swap(stream_, other.stream_);
        return *this;
    }
    /// Pending work still completes: its data must outlive it, so wait before.
    ~stream() {
        if (stream_ != nullptr) static_cast<void>(cudaStreamDestroy(stream_));
    }

    /// Returns CUDA's handle.
    [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }
    operator cudaStream_t() const noexcept {
        return stream_;
    } ///< for `launch` and the copies NOLINT(google-explicit-constructor)

    /// Waits on the host for all work. Throws `device_error`, also for errors of kernels.
    void synchronize() const {
        detail::note(device_call::wait);
        check(cudaStreamSynchronize(stream_), "waiting for a stream");
    }
    /// True if all work of the stream is done.
    [[nodiscard]] bool idle() const {
        const cudaError_t result = cudaStreamQuery(stream_);
        if (result == cudaErrorNotReady) return false;
        check(result, "asking for a stream");
        return true;
    }
    /// Makes later work here start after `point`. The host does not wait.
    void wait(const event& point) { check(cudaStreamWaitEvent(stream_, point.get(), 0), "waiting for another stream"); }

private:
    cudaStream_t stream_ = nullptr;
};

} // namespace gneiss::cuda
