// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gneiss/storage/feature/row_gather.hpp>
#include <gneiss/storage/io/calibrate.hpp>

namespace gneiss {

/// Requests and bytes of some I/O. Additive.
struct gather_cost {
    std::uint64_t requests = 0; ///< number of requests
    std::uint64_t bytes = 0;    ///< bytes that they move

    /// Returns the time on a device: each request costs 1 / iops, each byte 1 / bandwidth. This is the model by which
    /// rows within `coalesce_bytes` of each other are read together.
    [[nodiscard]] double seconds(const io_profile& device) const noexcept {
        return static_cast<double>(requests) / device.iops + static_cast<double>(bytes) / device.bandwidth;
    }

    gather_cost& operator+=(const gather_cost& other) noexcept {
        requests += other.requests;
        bytes += other.bytes;
        return *this;
    }
    [[nodiscard]] friend gather_cost operator+(gather_cost a, const gather_cost& b) noexcept { return a += b; }
    friend bool operator==(const gather_cost&, const gather_cost&) = default;
};

/// Counts the requests by which `disk_rows` reads ascending rows of a file, in blocks of 512 bytes. O(1) per row.
class request_counter {
public:
    /// Counts for rows of `row_bytes` that begin at a multiple of the block.
    request_counter(std::size_t row_bytes, const gather_options& how) noexcept
        : row_bytes_(row_bytes),
          coalesce_bytes_(how.coalesce_bytes),
          run_bytes_(std::max<std::uint64_t>(how.run_bytes, block)) {}

    /// Adds a row. Precondition: it is not below the one before.
    void add(std::uint64_t row) noexcept {
        const std::uint64_t first = row * row_bytes_ / block * block;
        const std::uint64_t last = (row * row_bytes_ + row_bytes_ + block - 1) / block * block;
        if (begin_ == end_ || first > end_ + coalesce_bytes_ || last - begin_ > run_bytes_) {
            if (begin_ != end_ && last == end_) return; // the same row again, longer than a request
            done_ += open();
            begin_ = first;
        }
        end_ = last;
    }
    /// Returns the requests for the rows so far.
    [[nodiscard]] gather_cost cost() const noexcept { return done_ + open(); }

private:
    static constexpr std::uint64_t block = 512;

    [[nodiscard]] gather_cost open() const noexcept { return {begin_ == end_ ? 0U : 1U, end_ - begin_}; }

    std::uint64_t row_bytes_, coalesce_bytes_, run_bytes_;
    std::uint64_t begin_ = 0, end_ = 0; // of the request being extended
    gather_cost done_;
};

} // namespace gneiss
