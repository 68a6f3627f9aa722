// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/checksum.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/any_engine.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/durable.hpp>
#include <gneiss/storage/io/io_queue.hpp>
#include <gneiss/storage/io/plain_file.hpp>

namespace gneiss {

/// Rates of a device through an engine, and the resulting `gather_options::coalesce_bytes`.
struct io_profile {
    double bandwidth = 0; ///< sequential reads [bytes/s]
    double iops = 0;      ///< random reads of a block [1/s]
    /// bytes read in the time of one more request: bandwidth / iops, in multiples of 512, at most 1 MiB
    std::uint64_t coalesce_bytes = 0;
    double spread = 1; ///< ratio between two measurements, larger over smaller, of the rate that differs more

    /// Returns true if the measurements agree; otherwise the device was busy with other work and can do more than
    /// measured.
    [[nodiscard]] bool steady() const noexcept { return spread <= 1.5; }

    friend bool operator==(const io_profile&, const io_profile&) = default;
};

/// Options of `calibrate`.
struct calibrate_options {
    std::chrono::milliseconds time{800}; ///< in all; requests in flight at the end are still waited for
    bool direct = true;                  ///< bypass the page cache if possible: otherwise memory is measured
};

namespace detail {

/// Reads blocks of `length` at `offset_of(0)`, `offset_of(1)`, … for a while; returns the number per second.
template <class Offset>
[[nodiscard]] double reads_per_second(
    file& from, std::size_t length, std::size_t window, std::chrono::nanoseconds time, const Offset& offset_of) {
    io_queue queue(from.engine());
    aligned_buffer<std::byte> memory(window * length);
    std::uint64_t begun = 0, done = 0;
    const auto begin = [&](std::uint64_t place) {
        const auto at = static_cast<std::size_t>(place) * length;
        queue.read(from, offset_of(begun++), memory.span().subspan(at, length), place);
    };
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    auto now = start;
    while (begun < window) begin(begun);
    while (const auto place = queue.next_done()) {
        if (++done % 8 == 0 || length >= 65536) now = clock::now();
        if (now - start < time) begin(*place);
    }
    return static_cast<double>(done) / std::chrono::duration<double>(clock::now() - start).count();
}

inline constexpr std::uint64_t most_coalesce_bytes = std::uint64_t{1} << 20;

/// Combines two measurements. Other work only slows a device: the higher rates are nearer to its own.
[[nodiscard]] inline io_profile together(const io_profile& a, const io_profile& b) {
    const auto spread = [](double x, double y) { return std::max(x, y) / std::min(x, y); };
    io_profile result{.bandwidth = std::max(a.bandwidth, b.bandwidth),
        .iops = std::max(a.iops, b.iops),
        .coalesce_bytes = 0,
        .spread = std::max(spread(a.bandwidth, b.bandwidth), spread(a.iops, b.iops))};
    result.coalesce_bytes =
        static_cast<std::uint64_t>(std::min(result.bandwidth / result.iops, static_cast<double>(most_coalesce_bytes)));
    result.coalesce_bytes = round_up(result.coalesce_bytes, std::uint64_t{512});
    return result;
}

} // namespace detail

/// Measures an engine on an existing file, twice: half the time sequential reads, half random reads of a block.
///
/// Cost: about `time`, and 256 KiB of memory per request in flight. Nothing is written. Errors: `io_error`;
/// errc::invalid_argument for a file smaller than a block. Other work on the device at the same time is measured too:
/// if it started or stopped meanwhile, the two measurements differ, see `io_profile::steady`.
[[nodiscard]] inline io_profile calibrate(
    const engine_factory& engines, const std::filesystem::path& path, const calibrate_options& options = {}) {
    any_engine engine = make_engine(engines);
    file from(engine, path, {.direct = options.direct});
    const std::size_t block = std::max<std::size_t>(from.alignment(), 512), depth = engine.traits().depth;
    const std::uint64_t blocks = from.size() / block;
    if (blocks == 0) throw error(errc::invalid_argument, "too small a file to measure reads on", {.path = path});
    const std::size_t piece = std::min<std::size_t>((std::size_t{256} << 10) / block, blocks) * block;
    const std::uint64_t pieces = blocks * block / piece;
    const auto random = [&](std::uint64_t i) { return below(mix64(i + 1), blocks) * block; };
    const auto sequential = [&](std::uint64_t i) { return i % pieces * piece; };
    const auto measure = [&] {
        io_profile found;
        found.iops = detail::reads_per_second(from, block, 2 * depth, options.time / 4, random);
        found.bandwidth =
            static_cast<double>(piece) * detail::reads_per_second(from, piece, depth, options.time / 4, sequential);
        return found;
    };
    const io_profile first = measure();
    return detail::together(first, measure());
}

/// Returns the bytes per second that one thread copies from one half of `bytes` of memory to the other, back and forth
/// for `time`: the bandwidth of memory beyond the CPU's caches, if they do not hold `bytes`.
[[nodiscard]] inline double copy_bandwidth(
    std::size_t bytes = std::size_t{32} << 20, std::chrono::milliseconds time = std::chrono::milliseconds(20)) {
    const std::size_t half = std::max<std::size_t>(bytes / 2, 64);
    auto memory = aligned_buffer<std::byte>::zeroed(2 * half);
    using clock = std::chrono::steady_clock;
    std::size_t copies = 0;
    const auto start = clock::now();
    auto now = start;
    for (; copies == 0 || now - start < time; ++copies, now = clock::now()) {
        memory.data()[copies % 2 * half] = static_cast<std::byte>(copies); // no copy repeats another
        std::memcpy(memory.data() + (copies + 1) % 2 * half, memory.data() + copies % 2 * half, half);
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    return static_cast<double>(copies) * static_cast<double>(half) / std::chrono::duration<double>(now - start).count();
}

namespace detail {

inline constexpr std::uint64_t profile_magic = 0x464f5250'49534e47ULL, profile_version = 1; // "GNSIPROF"

} // namespace detail

/// Saves a profile at `path` in one durable step: six little-endian words {magic, version, bandwidth, iops,
/// coalesce_bytes, checksum}. Throws `io_error`.
inline void save_profile(const std::filesystem::path& path, const io_profile& profile) {
    std::array<std::uint64_t, 6> words{detail::profile_magic, detail::profile_version,
        std::bit_cast<std::uint64_t>(profile.bandwidth), std::bit_cast<std::uint64_t>(profile.iops),
        profile.coalesce_bytes, 0};
    words[5] = checksum(std::as_bytes(std::span(words).first(5)));
    atomic_write_file(path, std::as_bytes(std::span(words)));
}

/// Reads the output of `save_profile`. Throws `io_error`, errc::invalid_format, version_mismatch, corrupt.
[[nodiscard]] inline io_profile load_profile(const std::filesystem::path& path) {
    const plain_file from = plain_file::open(path);
    const auto wrong = [&](errc code, const char* what) { return error(code, what, {.path = path}); };
    std::array<std::uint64_t, 6> words{};
    if (from.size() != sizeof words) throw wrong(errc::invalid_format, "not a profile of a device");
    from.read_at(0, std::as_writable_bytes(std::span(words)));
    if (words[0] != detail::profile_magic) throw wrong(errc::invalid_format, "not a profile of a device");
    if (words[5] != checksum(std::as_bytes(std::span(words).first(5)))) throw wrong(errc::corrupt, "checksum mismatch");
    if (words[1] != detail::profile_version) throw wrong(errc::version_mismatch, "written by another version");
    const io_profile found{std::bit_cast<double>(words[2]), std::bit_cast<double>(words[3]), words[4]};
    if (!std::isfinite(found.bandwidth) || !std::isfinite(found.iops) || found.bandwidth <= 0 || found.iops <= 0 ||
        found.coalesce_bytes > detail::most_coalesce_bytes)
        throw wrong(errc::corrupt, "rates that cannot be");
    return found;
}

} // namespace gneiss
