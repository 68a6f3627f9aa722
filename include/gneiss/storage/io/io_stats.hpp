// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace gneiss {

/// I/O of a component and its waiting time.
///
/// Integers, so that merging is exactly associative and commutative: parts may be added in any order.
struct io_stats {
    std::uint64_t reads = 0;            ///< requests given to the engine, retries included
    std::uint64_t writes = 0;           ///< the same
    std::uint64_t syncs = 0;            ///< the same
    std::uint64_t read_bytes = 0;       ///< bytes that arrived
    std::uint64_t written_bytes = 0;    ///< bytes accepted by the engine
    std::uint64_t retries = 0;          ///< requests repeated after a short, interrupted or refused one
    std::chrono::nanoseconds waited{0}; ///< time the calling thread was blocked on completions

    /// Returns the number of requests.
    [[nodiscard]] std::uint64_t requests() const noexcept { return reads + writes + syncs; }
    /// Returns the waiting time.
    [[nodiscard]] double wait_seconds() const noexcept { return std::chrono::duration<double>(waited).count(); }

    io_stats& operator+=(const io_stats& other) noexcept {
        reads += other.reads;
        writes += other.writes;
        syncs += other.syncs;
        read_bytes += other.read_bytes;
        written_bytes += other.written_bytes;
        retries += other.retries;
        waited += other.waited;
        return *this;
    }
    /// Subtracts `other`, an earlier state of the same statistics.
    io_stats& operator-=(const io_stats& other) noexcept {
        reads -= other.reads;
        writes -= other.writes;
        syncs -= other.syncs;
        read_bytes -= other.read_bytes;
        written_bytes -= other.written_bytes;
        retries -= other.retries;
        waited -= other.waited;
        return *this;
    }
    [[nodiscard]] friend io_stats operator+(io_stats a, const io_stats& b) noexcept { return a += b; }
    /// Subtracts member by member.
    [[nodiscard]] friend io_stats operator-(io_stats a, const io_stats& b) noexcept { return a -= b; }
    friend bool operator==(const io_stats&, const io_stats&) = default;
};

} // namespace gneiss
