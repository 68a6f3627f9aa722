// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace programs {

/// Returns the number of CPUs this process may use: affinity mask and cgroup quota (v1, v2), at least 1.
/// \param root  "/" on a machine; tests pass a directory with the same files
[[nodiscard]] unsigned usable_cpus(const std::filesystem::path& root = "/");

/// Returns the memory this process can still take without swapping or being killed [bytes]: the least of MemAvailable
/// and, for every memory cgroup from its own up to the root (v1 or v2), limit − usage + inactive file cache.
[[nodiscard]] std::uint64_t available_memory(const std::filesystem::path& root = "/");

/// Returns the memory of the machine, or of the cgroup if less [bytes].
[[nodiscard]] std::uint64_t total_memory(const std::filesystem::path& root = "/");

/// Compares a memory budget [bytes] with what the system grants this process: a warning with both numbers, which is
/// returned, or empty. Throws `gneiss::error` (over_budget) for more than memory and swap of the machine, unless
/// `plans_only`, which warns.
[[nodiscard]] std::string doubt_memory(std::uint64_t budget, bool plans_only, const std::filesystem::path& root = "/");

/// Limits that the cgroups of this process set.
struct cgroup_limits {
    std::optional<std::uint64_t> memory{}; ///< bytes, if less than the machine's
    std::optional<double> cpus{};
    int version = 0; ///< of the hierarchy that sets a limit: 1 or 2
};
[[nodiscard]] cgroup_limits limits_of_cgroups(const std::filesystem::path& root = "/");

/// Returns the first model name that the system reports ("Intel(R) Xeon(R) …"), or the architecture.
[[nodiscard]] std::string cpu_name(const std::filesystem::path& root = "/");

/// Returns the current resident memory of this process [bytes]; `peak_rss` returns the highest so far. 0 if the system
/// does not report it.
[[nodiscard]] std::uint64_t current_rss();
[[nodiscard]] std::uint64_t peak_rss();
/// Returns `current_rss` without pages of mapped files, which the system can reclaim.
[[nodiscard]] std::uint64_t anonymous_rss();
/// Returns freed blocks of 1 MiB and more to the system from now on, instead of keeping them for reuse. This avoids
/// double use by buffers that take turns, and fragmentation by large blocks between small ones. Has no effect if the C
/// library does not support it.
void return_large_blocks();
/// Returns free memory to the system.
void trim_memory();
/// Bytes between this process and its devices.
struct device_bytes {
    std::uint64_t read = 0,
                  written =
                      0; ///< including pages of mapped files; not what the page cache had; writes when they enter it
};
/// Returns the bytes moved so far; 0 if the system does not report them.
[[nodiscard]] device_bytes bytes_moved();
/// Returns the number of page faults that waited for I/O: pages of mapped files that were not in the page cache.
[[nodiscard]] std::uint64_t major_page_faults();

/// Returns text in quotes as a shell reads it.
[[nodiscard]] std::string shell_quoted(std::string_view text);
/// Returns a word as a shell reads it: in quotes if it needs them.
[[nodiscard]] std::string shell_word(const std::string& word);
/// Returns the command line of this process as a shell reads it, the program by its file name; empty if the system does
/// not report it.
/// \param root  as above
[[nodiscard]] std::string command_text(const std::filesystem::path& root = "/");

/// Returns user and system time of all threads of this process so far [seconds].
[[nodiscard]] double cpu_seconds();

/// Resident memory of this process [bytes], all and without pages of mapped files; a sanitizer's own is not counted.
struct memory_use {
    std::uint64_t all = 0, anonymous = 0;
};
[[nodiscard]] memory_use used_memory();
/// Returns the memory of the program itself, without its data: its current use beyond `before`, plus a margin [bytes].
[[nodiscard]] std::uint64_t program_memory(const memory_use& before);

/// File system of a directory, and the kind of its device.
struct disk_info {
    enum class medium { unknown, memory, network, rotating, ssd };
    std::string filesystem{}, device{}; ///< "ext4", "/dev/nvme0n1p2"; empty: unknown
    medium kind = medium::unknown;
};
[[nodiscard]] disk_info disk_of(const std::filesystem::path& directory, const std::filesystem::path& root = "/");

/// Returns the nearest existing directory at or above `path`.
[[nodiscard]] std::filesystem::path existing_parent(const std::filesystem::path& path);
/// Throws `gneiss::error` or `gneiss::io_error` unless a directory, or a `file`, can be made at `out`, with the
/// directories that lead to it: before the work, not after it.
void check_output_place(const std::filesystem::path& out, bool file);
/// Returns the bytes an unprivileged user can still write under `path`, which need not exist yet. Throws
/// `gneiss::io_error` if the system does not report it.
[[nodiscard]] std::uint64_t free_disk(const std::filesystem::path& path);

} // namespace programs
