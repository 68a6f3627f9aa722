#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace programs {

/// CPUs this process may use: affinity mask and cgroup quota (v1, v2), at least 1.
/// \param root  "/" on a machine; tests give a directory with the same files
[[nodiscard]] unsigned usable_cpus(const std::filesystem::path& root = "/");

/// Memory this process could still take without swapping or being killed [bytes]: the least of MemAvailable and, for
/// every memory cgroup from its own up to the root (v1 or v2), limit − usage + inactive file cache.
[[nodiscard]] std::uint64_t available_memory(const std::filesystem::path& root = "/");

/// Memory of the machine, or of the cgroup when that is less [bytes].
[[nodiscard]] std::uint64_t total_memory(const std::filesystem::path& root = "/");

/// "Intel(R) Xeon(R) …": the first model name the system tells, or the architecture.
[[nodiscard]] std::string cpu_name(const std::filesystem::path& root = "/");

/// Resident memory of this process now, and at its highest so far [bytes]. 0 where the system does not tell.
[[nodiscard]] std::uint64_t current_rss();
[[nodiscard]] std::uint64_t peak_rss();
/// Of `current_rss`, without pages of mapped files, which the system takes back as it likes.
[[nodiscard]] std::uint64_t anonymous_rss();
/// From now on blocks of 1 MiB and more are the system's again when they are freed, and not kept for the next; so that what
/// takes turns in memory is not there twice, nor holes where large blocks lay between small ones. Where the C library can be told.
void return_large_blocks();
/// Gives the system what is free.
void trim_memory();
/// Bytes that the device read for this process, pages of mapped files among them; 0 where the system does not tell.
[[nodiscard]] std::uint64_t bytes_read_from_device();
/// Pages that this process touched and had to wait for: mapped files that were not in the page cache.
[[nodiscard]] std::uint64_t major_page_faults();

/// User and system time of all threads of this process so far [seconds].
[[nodiscard]] double cpu_seconds();

/// What the program takes beside what it works on: what it has by now, and some more [bytes].
[[nodiscard]] std::uint64_t program_memory();

/// The nearest directory above `path`, or itself, that exists.
[[nodiscard]] std::filesystem::path existing_parent(const std::filesystem::path& path);
/// Bytes an unprivileged user may still write under `path`, which need not exist yet.
/// Throws `gneiss::io_error` when the system does not tell.
[[nodiscard]] std::uint64_t free_disk(const std::filesystem::path& path);

} // namespace programs
