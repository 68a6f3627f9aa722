// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gneiss/core/types.hpp>
#include <gneiss/storage/engine/concepts.hpp>

namespace gneiss {

/// An imaginary disk.
struct throttle_options {
    double bytes_per_second = 150e6;           ///< > 0
    std::chrono::nanoseconds latency{100'000}; ///< added to each operation; shared by operations in flight
    std::size_t block_bytes = 128 * 1024;      ///< transfers are charged in whole blocks; at least 1
};

/// The clock of `throttled`; tests replace it.
struct steady_timer {
    using time_point = std::chrono::steady_clock::time_point; ///< point in time

    /// Returns the time.
    [[nodiscard]] time_point now() const noexcept { return std::chrono::steady_clock::now(); }
    /// Waits until a point in time.
    void sleep_until(time_point when) const { std::this_thread::sleep_until(when); }
};

/// The one device behind all engines that share it: serves transfers one at a time. Thread-safe.
template <class Timer = steady_timer>
class throttled_device {
public:
    using time_point = typename Timer::time_point; ///< point in time

    /// Device with a bandwidth and a latency.
    explicit throttled_device(const throttle_options& options, Timer timer = {})
        : options_(options),
          timer_(std::move(timer)),
          free_(timer_.now()) {}

    [[nodiscard]] const throttle_options& options() const noexcept { return options_; }
    /// Returns the clock.
    [[nodiscard]] Timer& timer() noexcept { return timer_; }

    /// Returns the bytes charged for a transfer of `length`.
    [[nodiscard]] std::size_t charged(std::size_t length) const noexcept {
        return round_up(length, std::max<std::size_t>(options_.block_bytes, 1));
    }
    /// Returns the completion time of a transfer of `length` bytes requested now.
    [[nodiscard]] time_point reserve(std::size_t length) {
        const std::chrono::duration<double> busy(static_cast<double>(charged(length)) / options_.bytes_per_second);
        const std::scoped_lock lock(mutex_);
        free_ = std::max(free_, timer_.now()) + std::chrono::ceil<typename time_point::duration>(busy);
        return free_ + std::chrono::ceil<typename time_point::duration>(options_.latency);
    }

private:
    throttle_options options_;
    Timer timer_;
    std::mutex mutex_;
    time_point free_;
};

/// Wraps `Engine` and limits it to the bandwidth and latency of a given device, to simulate a slow disk.
///
/// Meaning: `Engine` moves the bytes; a completion is held back until the device would have finished it. So n bytes
/// take at least n / bandwidth on any storage. Blocks in `wait`, never longer than the operations in flight take.
/// Models `io_engine`.
template <class Engine, class Timer = steady_timer>
class throttled {
    static_assert(
        io_engine<Engine>, "throttled: Engine must be a gneiss::io_engine, see gneiss/storage/engine/concepts.hpp");

public:
    using device_type = throttled_device<Timer>; ///< device that engines share

    /// Engine on a device that others share.
    throttled(Engine engine, std::shared_ptr<device_type> device)
        : engine_(std::move(engine)),
          device_(std::move(device)) {}
    /// Engine on a device of its own.
    throttled(Engine engine, const throttle_options& options)
        : throttled(std::move(engine), std::make_shared<device_type>(options)) {}

    [[nodiscard]] engine_traits traits() const { return engine_.traits(); }
    [[nodiscard]] int open(const std::filesystem::path& path, const open_options& options) {
        return engine_.open(path, options);
    }
    void close(int file) { engine_.close(file); }
    [[nodiscard]] std::uint64_t size(int file) { return engine_.size(file); }
    void resize(int file, std::uint64_t bytes) { engine_.resize(file, bytes); }
    [[nodiscard]] std::size_t direct_alignment(int file) const { return engine_.direct_alignment(file); }

    [[nodiscard]] std::size_t submit(std::span<const io_request> requests) {
        const std::size_t depth = traits().depth;
        std::size_t taken = 0;
        for (; taken < requests.size() && in_flight() < depth; ++taken) {
            io_request request = requests[taken];
            const std::size_t free = free_slot();
            request.tag = free;
            if (engine_.submit({&request, 1}) == 0) break;
            slots_[free] = {requests[taken].tag, device_->reserve(request.length), 0, true};
        }
        return taken;
    }

    [[nodiscard]] std::size_t wait(std::span<io_completion> done, std::size_t at_least) {
        at_least = std::min({at_least, done.size(), in_flight()});
        io_completion arrived[16];
        std::size_t missing = at_least > landed_.size() ? at_least - landed_.size() : 0;
        for (std::size_t count = 1; count > 0 && (missing > 0 || engine_.in_flight() > 0);) {
            count = engine_.wait(arrived, std::min<std::size_t>(missing, 16));
            for (std::size_t i = 0; i < count; ++i) {
                slots_[arrived[i].tag].result = arrived[i].result;
                landed_.push_back(arrived[i].tag);
            }
            missing -= std::min(missing, count);
        }
        std::ranges::sort(landed_, {}, [&](std::size_t tag) { return slots_[tag].due; });
        if (at_least > 0) device_->timer().sleep_until(slots_[landed_[at_least - 1]].due);
        const auto now = device_->timer().now();
        std::size_t count = 0;
        while (count < done.size() && count < landed_.size() && slots_[landed_[count]].due <= now) {
            slot& from = slots_[landed_[count]];
            done[count++] = {from.tag, from.result};
            from.used = false;
        }
        landed_.erase(landed_.begin(), landed_.begin() + static_cast<std::ptrdiff_t>(count));
        return count;
    }

    [[nodiscard]] std::size_t in_flight() const { return engine_.in_flight() + landed_.size(); }

private:
    struct slot {
        std::uint64_t tag = 0;
        typename Timer::time_point due{};
        std::int64_t result = 0;
        bool used = false;
    };

    [[nodiscard]] std::size_t free_slot() {
        const auto found = std::ranges::find(slots_, false, &slot::used);
        const auto index = static_cast<std::size_t>(found - slots_.begin());
        if (found == slots_.end()) slots_.emplace_back();
        return index;
    }

    Engine engine_;
    std::shared_ptr<device_type> device_;
    std::vector<slot> slots_;         // requests in flight, by the tag passed to the engine
    std::vector<std::size_t> landed_; // those that the engine completed
};

} // namespace gneiss
