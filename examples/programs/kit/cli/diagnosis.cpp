// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/diagnosis.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include <unistd.h>

#include <fmt/format.h>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>
#include <gneiss/core/random.hpp>
#include <gneiss/storage/engine/file.hpp>
#include <gneiss/storage/io/file_system.hpp>
#include <gneiss/storage/io/plain_file.hpp>

#include "kit/cli/units.hpp"

namespace programs {
namespace {

namespace fs = std::filesystem;
using status = finding_status;
constexpr std::uint64_t mib = std::uint64_t{1} << 20, gib = std::uint64_t{1} << 30;

std::string first_line(const fs::path& file) {
    std::ifstream in(file);
    std::string line;
    std::getline(in, line);
    return line;
}

/// Returns the word in brackets: "always [madvise] never" has "madvise".
std::string chosen_word(const std::string& line) {
    const std::size_t begin = line.find('['), end = line.find(']');
    return begin == line.npos || end == line.npos || end < begin ? "" : line.substr(begin + 1, end - begin - 1);
}

std::string why_io_uring_fails(int error_number, const fs::path& root) {
    const std::string setting = first_line(root / "proc/sys/kernel/io_uring_disabled");
    if (error_number == EPERM || error_number == EACCES) {
        if (setting == "2") return "an administrator disabled it: sysctl -w kernel.io_uring_disabled=0 allows it";
        if (setting == "1")
            return "it is disabled for this user: sysctl -w kernel.io_uring_disabled=0 allows it, and so does "
                   "membership of the group in kernel.io_uring_group";
        return "a seccomp filter forbids it, as containers do by default: start the container with a profile that "
               "allows io_uring_setup, "
               "io_uring_enter and io_uring_register";
    }
    if (error_number == ENOSYS)
        return "the kernel is older than Linux 5.1, or a sandbox hides it: use a newer kernel, or run outside the "
               "sandbox";
    if (error_number == ENOMEM)
        return "the limit of locked memory is too low: raise it by 'ulimit -l unlimited', or in "
               "/etc/security/limits.conf";
    return "use a newer kernel";
}

} // namespace

void diagnose_cpus(diagnosis& to, const fs::path& root) {
    const unsigned usable = usable_cpus(root);
    const auto online = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    const cgroup_limits limits = limits_of_cgroups(root);
    to.facts["cpus"] = usable;
    to.facts["online_cpus"] = online;
    to.facts["cpu"] = cpu_name(root);
    finding result{.name = "CPUs", .value = fmt::format("{} of {} ({})", usable, online, cpu_name(root))};
    if (limits.cpus) to.facts["cpu_quota"] = *limits.cpus;
    if (usable < online) {
        result.status = status::note;
        result.advice = limits.cpus && *limits.cpus < online
            ? fmt::format("a cgroup (v{}) grants the time of {:.3g} CPUs: raise {} to use more", limits.version,
                  *limits.cpus, limits.version == 2 ? "its cpu.max" : "its cpu.cfs_quota_us")
            : "the affinity of this process leaves the others out: start it without taskset or cpusets to use more";
    }
    to.findings.push_back(std::move(result));
}

void diagnose_memory(diagnosis& to, std::optional<std::uint64_t> budget, const fs::path& root) {
    const std::uint64_t total = total_memory(root), available = available_memory(root);
    const cgroup_limits limits = limits_of_cgroups(root);
    to.facts["memory_bytes"] = total;
    to.facts["available_memory_bytes"] = available;
    finding result{.name = "memory",
        .value = fmt::format("{} free of {}", gneiss::format_bytes(available), gneiss::format_bytes(total))};
    if (limits.memory) {
        to.facts["memory_limit_bytes"] = *limits.memory;
        to.facts["memory_limit_cgroup"] = limits.version;
        result.value += fmt::format(", the limit of a cgroup (v{})", limits.version);
        result.status = status::note;
        result.advice = fmt::format("the machine has more memory: raise {} to use it",
            limits.version == 2 ? "the cgroup's memory.max" : "the cgroup's memory.limit_in_bytes");
    }
    if (budget && *budget > available) {
        result.status = status::problem;
        result.advice =
            fmt::format("--memory {} is more than that: end other programs, or give less", to_flag(byte_size{*budget}));
    } else if (available < gib) {
        result.status = status::problem;
        result.advice =
            "little is free: end other programs; trainers take a --memory of 256MiB, too, and read more from disk";
    }
    to.findings.push_back(std::move(result));
}

void diagnose_pages(diagnosis& to, const fs::path& root) {
    const long page = ::sysconf(_SC_PAGESIZE);
    to.facts["page_bytes"] = page;
    const std::string huge = chosen_word(first_line(root / "sys/kernel/mm/transparent_hugepage/enabled"));
    finding result{.name = "pages",
        .value =
            gneiss::format_bytes(static_cast<std::uint64_t>(page)) + ", huge pages: " + (huge.empty() ? "none" : huge)};
    to.facts["huge_pages"] = huge.empty() ? "none" : huge;
    if (huge == "never") {
        result.status = status::problem;
        result.advice = "random reads of large tables are slower without: as root, echo madvise > "
                        "/sys/kernel/mm/transparent_hugepage/enabled";
    } else if (huge.empty()) {
        result.status = status::note;
        result.advice = "this kernel has no transparent huge pages: random reads of large tables are slower";
    }
    to.findings.push_back(std::move(result));
}

void diagnose_locked_memory(diagnosis& to, std::uint64_t limit, const std::string& kernel) {
    int major = 0, minor = 0;
    char dot = 0;
    std::istringstream(kernel) >> major >> dot >> minor;
    const bool counted = major < 5 || (major == 5 && minor < 12);
    const bool unlimited = limit == std::numeric_limits<std::uint64_t>::max();
    to.facts["kernel"] = kernel;
    if (!unlimited) to.facts["locked_memory_bytes"] = limit;
    finding result{.name = "locked memory",
        .value =
            fmt::format("{}, Linux {}", unlimited ? "unlimited" : "at most " + gneiss::format_bytes(limit), kernel)};
    if (counted && limit < 8 * mib) {
        result.status = status::problem;
        result.advice = "before Linux 5.12 rings of io_uring count as locked memory: raise the limit by 'ulimit -l "
                        "unlimited', or in /etc/security/limits.conf";
    }
    to.findings.push_back(std::move(result));
}

void diagnose_io_engine(diagnosis& to, const std::vector<gneiss::engine_candidate>& candidates, const fs::path& root) {
    finding result{.name = "io_uring",
        .status = status::problem,
        .value = "not in this build",
        .advice =
            "reads use threads, which cost more CPU time: install liburing's development package and build again"};
    for (const gneiss::engine_candidate& candidate : candidates) {
        if (candidate.name != "uring") continue;
        try {
            gneiss::any_engine engine = candidate.make();
            gneiss::probe_engine(engine);
            result = {.name = "io_uring", .value = "works"};
        } catch (const gneiss::io_error& e) {
            result.value = std::string("refused: ") + std::strerror(e.code().value());
            result.advice =
                why_io_uring_fails(e.code().value(), root) + "; until then reads use threads, which cost more CPU time";
            to.facts["io_uring_error"] = e.what();
        }
    }
    const gneiss::engine_choice chosen = gneiss::choose_engine("auto", candidates);
    to.facts["io_engine"] = chosen.name;
    to.facts["io_engine_reason"] = chosen.reason;
    to.findings.push_back(std::move(result));
}

void diagnose_gpu(diagnosis& to, const gpu_facts& gpu) {
    finding result{.name = "GPU"};
    to.facts["cuda_build"] = !gpu.cuda.empty();
    auto list = nlohmann::ordered_json::array();
    std::istringstream lines(gpu.smi.value_or(""));
    for (std::string line; std::getline(lines, line);) {
        const std::vector<std::string> fields = split_list(line);
        if (fields.size() != 4) continue;
        std::uint64_t total = 0, free = 0;
        try {
            total = parse_count(fields[1]) * mib;
            free = parse_count(fields[2]) * mib;
        } catch (const std::exception&) { // "[N/A]"
            continue;
        }
        list.push_back(
            {{"name", fields[0]}, {"memory_bytes", total}, {"free_memory_bytes", free}, {"driver", fields[3]}});
        result.value += fmt::format("{}{}, {} free of {}", result.value.empty() ? "" : "; ", fields[0],
            gneiss::format_bytes(free), gneiss::format_bytes(total));
    }
    to.facts["gpus"] = list;
    if (!list.empty()) {
        if (gpu.cuda.empty()) {
            result.status = status::problem;
            result.advice = "this build has no CUDA: install the CUDA toolkit 12 or newer, configure and build again, "
                            "then train with --device cuda";
        }
    } else if (gpu.device) {
        result.status = status::problem;
        result.value = "an NVIDIA device, but nvidia-smi does not run";
        result.advice = "install the NVIDIA driver and its tools; in a container, pass the GPU with them (--gpus all)";
    } else {
        result.status = status::note;
        result.value = "none";
        result.advice = "trainers compute on the CPU";
    }
    to.findings.push_back(std::move(result));
}

void diagnose_disk(diagnosis& to, const fs::path& directory, const disk_info& disk, std::uint64_t free_bytes) {
    using medium = disk_info::medium;
    constexpr const char* names[] = {"unknown", "memory", "network", "rotating", "ssd"};
    const char* const kind = names[static_cast<std::size_t>(disk.kind)];
    nlohmann::ordered_json facts{{"path", directory.string()}, {"kind", kind}, {"free_bytes", free_bytes}};
    if (!disk.filesystem.empty()) facts["filesystem"] = disk.filesystem;
    if (!disk.device.empty()) facts["device"] = disk.device;
    to.facts["disk"] = std::move(facts);
    finding result{.name = "disk"};
    result.value =
        fmt::format("{}: {}{}{}", directory.string(), disk.filesystem.empty() ? "unknown file system" : disk.filesystem,
            disk.device.empty() ? "" : " on " + disk.device,
            disk.kind == medium::unknown ? "" : fmt::format(" ({})", kind));
    if (disk.kind == medium::memory) {
        result.status = status::problem;
        result.advice = "files here take memory, which --memory does not count: choose a directory on a disk";
    } else if (disk.kind == medium::network) {
        result.status = status::note;
        result.advice =
            "other machines share its rates: keep datasets and runs on a local disk, if one is large enough";
    } else if (disk.kind == medium::rotating) {
        result.status = status::note;
        result.advice = "the system calls it a rotating disk, as virtual disks do by default: the rates below decide";
    }
    to.findings.push_back(std::move(result));
    finding space{.name = "free space", .value = gneiss::format_bytes(free_bytes)};
    if (free_bytes < 2 * gib) {
        space.status = status::problem;
        space.advice = "a dataset, its embeddings and checkpoints need several times the size of the edge file: free "
                       "space, or choose another directory";
    }
    to.findings.push_back(std::move(space));
}

disk_rates measure_disk(const fs::path& directory, std::uint64_t free_bytes, const gneiss::engine_factory& engines,
    std::chrono::milliseconds time, const std::stop_token& stop) {
    constexpr std::uint64_t piece = 4 * mib, synced = 16 * mib, most = 256 * mib;
    if (free_bytes / 4 < synced)
        throw gneiss::error(gneiss::errc::no_space, "has no space for a test file", {.path = directory});
    struct test_file {
        explicit test_file(const fs::path& directory) : within(directory, ".gneiss-doctor-") {}
        test_file(const test_file&) = delete;
        test_file& operator=(const test_file&) = delete;
        gneiss::scratch_directory within;
        fs::path path = within.path() / "test";
    };
    const test_file at(directory);
    const auto check_stop = [&] {
        if (stop.stop_requested()) throw gneiss::error(gneiss::errc::canceled, "interrupted");
    };
    disk_rates result;
    { // random bytes, which no file system compresses
        gneiss::aligned_buffer<std::uint64_t> values(piece / sizeof(std::uint64_t));
        for (std::size_t i = 0; i < values.size(); ++i) values.data()[i] = gneiss::mix64(i + 1);
        gneiss::plain_file out = gneiss::plain_file::create(at.path);
        using clock = std::chrono::steady_clock;
        const auto start = clock::now();
        auto now = start;
        const std::uint64_t end = std::min(most, free_bytes / 4 / synced * synced);
        while (result.bytes < end && now - start < time / 3) {
            check_stop();
            values.data()[0] = result.bytes;
            out.write_at(result.bytes, std::as_bytes(std::span(values.data(), values.size())));
            result.bytes += piece;
            if (result.bytes % synced == 0) out.sync();
            now = clock::now();
        }
        out.sync();
        result.write = static_cast<double>(result.bytes) / std::chrono::duration<double>(clock::now() - start).count();
        out.drop_cached(0, result.bytes);
        out.close();
    }
    check_stop();
    {
        gneiss::any_engine engine = engines();
        result.direct = gneiss::file(engine, at.path, {.direct = true}).direct();
    }
    result.reads = gneiss::calibrate(engines, at.path, {.time = time / 3});
    return result;
}

void diagnose_rates(diagnosis& to, const disk_rates& rates) {
    nlohmann::ordered_json& facts = to.facts["disk"];
    facts.update({{"direct", rates.direct}, {"read_bytes_per_second", rates.reads.bandwidth},
        {"reads_per_second", rates.reads.iops}, {"write_bytes_per_second", rates.write},
        {"coalesce_bytes", rates.reads.coalesce_bytes}, {"steady", rates.reads.steady()}});
    finding direct{.name = "direct I/O", .value = rates.direct ? "works" : "not on this file system"};
    if (!rates.direct) {
        direct.status = status::problem;
        direct.advice = "reads pass through the page cache, which takes memory and hides the disk's rates: use a local "
                        "file system such as ext4 or XFS";
    }
    to.findings.push_back(std::move(direct));
    const char* const busy = "other work disturbed the measurement: repeat it on an idle machine";
    finding reads{.name = "sequential I/O",
        .value =
            fmt::format("{} read, {} written", human_bandwidth(rates.reads.bandwidth), human_bandwidth(rates.write))};
    if (rates.reads.bandwidth < 150e6) {
        reads.status = status::problem;
        reads.advice = "training beyond memory waits for reads: use an SSD, or a --memory that holds the data";
    } else if (!rates.reads.steady()) {
        reads.status = status::note;
        reads.advice = busy;
    }
    to.findings.push_back(std::move(reads));
    finding random{.name = "random reads", .value = human_rate(rates.reads.iops, "reads")};
    if (rates.reads.iops < 2000) {
        random.status = status::problem;
        random.advice =
            "gneiss-ginex waits for them: use an SSD, a larger --memory, or gneiss-hanoi, which reads whole partitions";
    }
    to.findings.push_back(std::move(random));
}

} // namespace programs
