// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <gneiss/storage/engine/probe.hpp>
#include <gneiss/storage/io/calibrate.hpp>

#include "kit/cli/machine.hpp"

/// Checks of a machine for training out of core: facts, and advice about each problem.
namespace programs {

enum class finding_status : std::uint8_t {
    good,
    note,   ///< no defect, but worth knowing
    problem ///< costs speed or stops a run, and can be changed
};

struct finding {
    std::string name{};
    finding_status status = finding_status::good;
    std::string value{};  ///< one line
    std::string advice{}; ///< a sentence; empty: none
};

/// Findings for people and the same facts for scripts: bytes, seconds; absent: unknown.
struct diagnosis {
    std::vector<finding> findings{};
    nlohmann::ordered_json facts = nlohmann::ordered_json::object();
};

// Each function adds one finding or more. `root` is "/" on a machine; tests pass a directory with the same files.

void diagnose_cpus(diagnosis& to, const std::filesystem::path& root = "/");
/// \param budget  bytes that a run is to use; none: any
void diagnose_memory(diagnosis& to, std::optional<std::uint64_t> budget = {}, const std::filesystem::path& root = "/");
/// Huge and usual pages.
void diagnose_pages(diagnosis& to, const std::filesystem::path& root = "/");
/// The limit of locked memory, which rings of io_uring count against before Linux 5.12.
/// \param limit   RLIMIT_MEMLOCK [bytes]
/// \param kernel  its release: "6.1.0-28-amd64"
void diagnose_locked_memory(diagnosis& to, std::uint64_t limit, const std::string& kernel);
/// Tries each engine with a real read.
void diagnose_io_engine(
    diagnosis& to, const std::vector<gneiss::engine_candidate>& candidates, const std::filesystem::path& root = "/");

struct gpu_facts {
    bool device = false;              ///< an NVIDIA device file is there
    std::optional<std::string> smi{}; ///< output of `gpu_query`; none: the tool is missing or failed
    std::string cuda{};               ///< CUDA version of this build; empty: without
};
/// Arguments of nvidia-smi: lines of name, memory, free memory [MiB], driver version, between commas.
inline constexpr const char* gpu_query[] = {
    "--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits"};
void diagnose_gpu(diagnosis& to, const gpu_facts& gpu);

/// Kind and free space of the disk that holds a directory.
void diagnose_disk(
    diagnosis& to, const std::filesystem::path& directory, const disk_info& disk, std::uint64_t free_bytes);

/// Rates of a disk, measured on a file.
struct disk_rates {
    gneiss::io_profile reads{};
    double write = 0;        ///< sequential and durable [bytes/s]
    bool direct = false;     ///< the file bypasses the page cache
    std::uint64_t bytes = 0; ///< of the file
};
/// Writes a file of up to 256 MiB to a directory for a third of `time`, reads it for a third, and removes it. Throws
/// gneiss::io_error, errc::canceled.
[[nodiscard]] disk_rates measure_disk(const std::filesystem::path& directory, std::uint64_t free_bytes,
    const gneiss::engine_factory& engines, std::chrono::milliseconds time, const std::stop_token& stop = {});
void diagnose_rates(diagnosis& to, const disk_rates& rates);

} // namespace programs
