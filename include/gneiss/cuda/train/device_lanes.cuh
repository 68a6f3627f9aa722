// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <gneiss/core/memory_budget.hpp>
#include <gneiss/cuda/core/stream.cuh>
#include <gneiss/cuda/core/transfer.cuh>
#include <gneiss/cuda/train/reusable_memory.cuh>

namespace gneiss::cuda {

/// Moves batches to a device, through its kernels and back, each in its own stream, so that one batch is uploaded while
/// another is computed and a third is downloaded.
///
///     transfer_slot& slot = lanes.stage_in(batch, bytes);                // … put its arrays …
///     lanes.copy_in(batch);
///     transfer_slot& back = lanes.stage_out(batch, bytes_of_results); // … room for its results …
///     stream& in = lanes.begin(batch); // … kernels of `in` read the one and write the other …
///     lanes.end(batch);
///     lanes.copy_out(batch);                                             // then the results are on the host
///
/// Memory: for the largest batch so far, per batch in flight, pinned and on the device. Thread-safety: each of the
/// three stages by one thread, for different batches.
class device_lanes {
public:
    /// Lanes without slots, which are made when batches come.
    explicit device_lanes(memory_budget& budget)
        : in_(budget, "batches"),
          rows_(budget, "rows"),
          back_(budget, "gradients") {}
    device_lanes(const device_lanes&) = delete;
    device_lanes& operator=(const device_lanes&) = delete;
    /// Waits: data of kernels and copies outlives this.
    ~device_lanes() {
        for (const stream* one : {&coming_, &computing_, &leaving_})
            static_cast<void>(cudaStreamSynchronize(one->get()));
    }

    /// Makes slots for batches 0 … count − 1. Precondition: no work is in flight.
    void resize(std::size_t count) {
        in_.resize(count);
        rows_.resize(count);
        back_.resize(count);
        times_.resize(count);
    }

    /// Returns the stream of uploads.
    [[nodiscard]] stream& coming() noexcept { return coming_; }
    /// Returns the stream of kernels.
    [[nodiscard]] stream& computing() noexcept { return computing_; }

    /// Returns the slot for uploading a batch, after its begin(), with room for `bytes`. Throws `over_budget`,
    /// `device_error`.
    [[nodiscard]] transfer_slot& stage_in(std::size_t batch, std::uint64_t bytes) { return in_.begin(batch, bytes); }
    /// Returns the slot for uploading the rows of a batch, likewise: they land there before the other arrays are known.
    [[nodiscard]] transfer_slot& stage_rows(std::size_t batch, std::uint64_t bytes) {
        return rows_.begin(batch, bytes);
    }
    /// Uploads the arrays of a batch.
    /// \param rows  whether it has rows
    /// \param only  bytes of its rows to upload, the first ones; none: all
    void copy_in(std::size_t batch, bool rows, std::optional<std::size_t> only = {}) {
        if (only) rows_[batch].cut(*only);
        if (rows) rows_[batch].copy_in(coming_);
        in_[batch].copy_in(coming_);
        host_bytes_.fetch_add(in_[batch].put_bytes(), std::memory_order_relaxed);
        times_[batch].rows = rows;
    }

    /// Returns the slot for downloading, likewise.
    [[nodiscard]] transfer_slot& stage_out(std::size_t batch, std::uint64_t bytes) { return back_.begin(batch, bytes); }
    /// Returns the stream for a batch's kernels, which begin after its upload.
    [[nodiscard]] stream& begin(std::size_t batch) {
        in_[batch].ready(computing_);
        if (times_[batch].rows) rows_[batch].ready(computing_);
        back_[batch].ready(computing_);
        times_[batch].begun.record(computing_);
        return computing_;
    }
    /// Ends a batch's kernels: its results may be downloaded.
    void end(std::size_t batch) {
        times_[batch].over.record(computing_);
        in_[batch].done(computing_);
        if (times_[batch].rows) rows_[batch].done(computing_);
        back_[batch].done(computing_);
    }
    /// Downloads the results of a batch's kernels, and waits for them.
    void copy_out(std::size_t batch) {
        back_[batch].copy_out(leaving_);
        back_[batch].wait();
        in_[batch].passed(); // the kernels came after it
        if (times_[batch].rows) rows_[batch].passed();
        busy_.fetch_add(static_cast<double>(times_[batch].over.milliseconds_since(times_[batch].begun)) / 1000,
            std::memory_order_relaxed);
    }

    /// Returns seconds from the first kernel of a batch to the end of its last, summed over all downloaded batches.
    /// Thread-safe.
    [[nodiscard]] double busy_seconds() const noexcept { return busy_.load(std::memory_order_relaxed); }

    /// Returns the bytes that host threads copied to slots, summed over all uploaded batches; rows land there by
    /// themselves. Thread-safe.
    [[nodiscard]] std::uint64_t host_bytes() const noexcept { return host_bytes_.load(std::memory_order_relaxed); }

private:
    struct times {
        event begun{true}, over{true};
        bool rows = false; ///< the batch has rows
    };

    stream coming_, computing_, leaving_;
    growing_slots in_, rows_, back_;
    std::vector<times> times_;
    std::atomic<double> busy_{0};
    std::atomic<std::uint64_t> host_bytes_{0};
};

} // namespace gneiss::cuda
