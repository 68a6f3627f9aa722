#include "kit/cli/diagnosis.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stop_token>
#include <string>

#include <gneiss/core/error.hpp>

#include "kit/cli/io_engines.hpp"
#include "support/error_code.hpp"
#include "support/temporary_directory.hpp"

namespace test_cli_common_diagnosis {

using namespace programs;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20, gib = std::uint64_t{1} << 30;

/// A file tree like /proc and /sys, of a machine without defects.
struct machine : gneiss::test::temporary_directory {
    machine() {
        file("proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:    4194304 kB\n");
        file("proc/cpuinfo", "model name\t: Test CPU\n");
        file("proc/self/cgroup", "0::/box\n");
        file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    }
    void file(const fs::path& name, const std::string& text) const {
        fs::create_directories((*this / name).parent_path());
        std::ofstream(*this / name) << text;
    }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

template <class Diagnose>
finding found_by(const Diagnose& diagnose) {
    diagnosis to;
    diagnose(to);
    REQUIRE(to.findings.size() == 1);
    return to.findings.front();
}

finding io_uring(int refusal, const fs::path& root) {
    const auto refused = [refusal]() -> gneiss::any_engine {
        throw gneiss::io_error(refusal, "cannot set up io_uring", {});
    };
    return found_by([&](diagnosis& to) {
        diagnose_io_engine(to, {{"uring", refused}, gneiss::threads_candidate()}, root);
        CHECK(to.facts["io_engine"] == "threads");
        CHECK(contains(to.facts["io_engine_reason"], "cannot set up io_uring"));
    });
}

} // namespace

TEST_CASE("a quota of a cgroup is a note that names its file") {
    const machine m;
    CHECK(contains(found_by([&](diagnosis& to) { diagnose_cpus(to, m.path()); }).value, "Test CPU"));
    m.file("sys/fs/cgroup/box/cpu.max", "10000 100000\n");
    diagnosis to;
    diagnose_cpus(to, m.path());
    CHECK(to.facts["cpus"] == 1);
    CHECK(to.facts["cpu_quota"] == 0.1);
    if (to.facts["online_cpus"] > 1) {
        CHECK(to.findings.front().status == finding_status::note);
        CHECK(contains(to.findings.front().advice, "a cgroup (v2) grants the time of 0.1 CPUs: raise its cpu.max"));
    }
}

TEST_CASE("memory: a limit of a cgroup is a note, little free memory and too large a budget are problems") {
    const machine m;
    const auto memory = [&](std::optional<std::uint64_t> budget = {}) {
        return found_by([&](diagnosis& to) { diagnose_memory(to, budget, m.path()); });
    };
    CHECK(memory().status == finding_status::good);
    CHECK(memory().value == "4.00 GiB free of 8.00 GiB");
    CHECK(memory(4 * gib).status == finding_status::good);
    CHECK(memory(5 * gib).status == finding_status::problem);
    CHECK(contains(memory(5 * gib).advice, "--memory 5GiB"));
    m.file("sys/fs/cgroup/box/memory.max", std::to_string(2 * gib));
    CHECK(memory().status == finding_status::note);
    CHECK(contains(memory().value, "2.00 GiB, the limit of a cgroup (v2)"));
    CHECK(contains(memory().advice, "memory.max"));
    m.file("sys/fs/cgroup/box/memory.current", std::to_string(2 * gib - 100 * mib));
    CHECK(memory().status == finding_status::problem);
    CHECK(contains(memory().value, "100 MiB free"));
}

TEST_CASE("huge pages that the system forbids are a problem, absent ones a note") {
    const machine m;
    const auto pages = [&] { return found_by([&](diagnosis& to) { diagnose_pages(to, m.path()); }); };
    CHECK(pages().status == finding_status::good);
    CHECK(contains(pages().value, "madvise"));
    m.file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
    CHECK(pages().status == finding_status::problem);
    CHECK(contains(pages().advice, "echo madvise >"));
    fs::remove(m / "sys/kernel/mm/transparent_hugepage/enabled");
    CHECK(pages().status == finding_status::note);
}

TEST_CASE("the limit of locked memory matters before Linux 5.12 only") {
    const auto locked = [](std::uint64_t limit, const char* kernel) {
        return found_by([&](diagnosis& to) { diagnose_locked_memory(to, limit, kernel); });
    };
    CHECK(locked(64 << 10, "5.10.0-21-amd64").status == finding_status::problem);
    CHECK(contains(locked(64 << 10, "5.10.0-21-amd64").advice, "ulimit -l"));
    CHECK(locked(64 << 20, "5.10.0-21-amd64").status == finding_status::good);
    CHECK(locked(64 << 10, "5.12.1").status == finding_status::good);
    CHECK(locked(64 << 10, "6.1.0").status == finding_status::good);
    CHECK(locked(64 << 10, "4.19.0").status == finding_status::problem);
    CHECK(contains(locked(std::numeric_limits<std::uint64_t>::max(), "4.19.0").value, "unlimited"));
}

TEST_CASE("a refusal of io_uring is explained by its cause") {
    const machine m;
    CHECK(contains(io_uring(EPERM, m.path()).advice, "seccomp"));
    m.file("proc/sys/kernel/io_uring_disabled", "0\n");
    CHECK(contains(io_uring(EPERM, m.path()).advice, "seccomp"));
    m.file("proc/sys/kernel/io_uring_disabled", "1\n");
    CHECK(contains(io_uring(EPERM, m.path()).advice, "kernel.io_uring_group"));
    m.file("proc/sys/kernel/io_uring_disabled", "2\n");
    CHECK(contains(io_uring(EPERM, m.path()).advice, "sysctl -w kernel.io_uring_disabled=0"));
    CHECK(contains(io_uring(ENOSYS, m.path()).advice, "Linux 5.1"));
    CHECK(contains(io_uring(ENOMEM, m.path()).advice, "ulimit -l"));
    for (const int refusal : {EPERM, ENOSYS, ENOMEM, EINVAL}) {
        CHECK(io_uring(refusal, m.path()).status == finding_status::problem);
        CHECK(contains(io_uring(refusal, m.path()).value, "refused: "));
    }
}

TEST_CASE("io_uring that works is good, and a build without it a problem") {
    const auto threads = [] { return gneiss::threads_candidate().make(); };
    const finding works = found_by([&](diagnosis& to) {
        diagnose_io_engine(to, {{"uring", threads}, gneiss::threads_candidate()});
        CHECK(to.facts["io_engine"] == "uring");
    });
    CHECK(works.status == finding_status::good);
    const finding missing = found_by([](diagnosis& to) { diagnose_io_engine(to, {gneiss::threads_candidate()}); });
    CHECK(missing.status == finding_status::problem);
    CHECK(contains(missing.advice, "liburing"));
}

TEST_CASE("GPUs: none is a note; a build without CUDA and a missing driver are problems") {
    const auto gpu = [](const gpu_facts& facts) { return found_by([&](diagnosis& to) { diagnose_gpu(to, facts); }); };
    CHECK(gpu({}).status == finding_status::note);
    CHECK(gpu({.device = true}).status == finding_status::problem);
    CHECK(contains(gpu({.device = true}).advice, "driver"));
    const std::string smi =
        "NVIDIA H100 80GB HBM3, 81559, 80000, 550.54.15\nNVIDIA T4, [N/A], 10, 550\nNVIDIA L4, 23034, 1024, 550\n";
    CHECK(gpu({.device = true, .smi = smi}).status == finding_status::problem);
    CHECK(contains(gpu({.device = true, .smi = smi}).advice, "no CUDA"));
    diagnosis to;
    diagnose_gpu(to, {.device = true, .smi = smi, .cuda = "12.4"});
    CHECK(to.findings.front().status == finding_status::good);
    CHECK(contains(to.findings.front().value, "NVIDIA H100 80GB HBM3, 78.1 GiB free of 79.6 GiB; NVIDIA L4"));
    REQUIRE(to.facts["gpus"].size() == 2);
    CHECK(to.facts["gpus"][1]["free_memory_bytes"] == gib);
}

TEST_CASE("a disk in memory or without space is a problem, one of the network a note") {
    using medium = disk_info::medium;
    const auto disk = [](const disk_info& info, std::uint64_t free = 100 * gib) {
        diagnosis to;
        diagnose_disk(to, "/data", info, free);
        REQUIRE(to.findings.size() == 2);
        CHECK(to.facts["disk"]["free_bytes"] == free);
        return to.findings;
    };
    CHECK(disk({"ext4", "/dev/sda1", medium::ssd})[0].value == "/data: ext4 on /dev/sda1 (ssd)");
    CHECK(disk({"ext4", "/dev/sda1", medium::ssd})[0].status == finding_status::good);
    CHECK(disk({})[0].value == "/data: unknown file system");
    CHECK(disk({"tmpfs", "tmpfs", medium::memory})[0].status == finding_status::problem);
    CHECK(disk({"nfs4", "a:/b", medium::network})[0].status == finding_status::note);
    CHECK(disk({"ext4", "/dev/sda1", medium::rotating})[0].status == finding_status::note);
    CHECK(disk({})[1].status == finding_status::good);
    CHECK(disk({}, gib)[1].status == finding_status::problem);
}

TEST_CASE("rates: slow ones are problems of their own, a disturbed measurement is a note") {
    const auto rates = [](double bandwidth, double iops, double spread, bool direct) {
        diagnosis to;
        diagnose_rates(to,
            {.reads = {.bandwidth = bandwidth, .iops = iops, .coalesce_bytes = 512, .spread = spread},
                .write = 1e9,
                .direct = direct,
                .bytes = gib});
        REQUIRE(to.findings.size() == 3);
        CHECK(to.facts["disk"]["read_bytes_per_second"] == bandwidth);
        return to.findings;
    };
    for (const finding& f : rates(2e9, 1e5, 1, true)) CHECK(f.status == finding_status::good);
    CHECK(rates(2e9, 1e5, 1, false)[0].status == finding_status::problem);
    CHECK(rates(1e8, 1e5, 1, true)[1].status == finding_status::problem);
    CHECK(rates(2e9, 1e5, 3, true)[1].status == finding_status::note);
    CHECK(rates(2e9, 100, 1, true)[2].status == finding_status::problem);
    CHECK(contains(rates(2e9, 100, 1, true)[2].advice, "gneiss-hanoi"));
}

TEST_CASE("a disk is measured within its time, and the test file is removed, after a stop too") {
    const gneiss::test::temporary_directory at;
    const auto engines = gneiss::choose_engine("auto", io_engine_candidates()).make;
    const auto start = std::chrono::steady_clock::now();
    const disk_rates rates = measure_disk(at.path(), free_disk(at.path()), engines, std::chrono::milliseconds(300));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10)); // of a slow disk, too
    CHECK(rates.bytes >= 4 * mib);
    CHECK(rates.bytes <= 256 * mib);
    CHECK(rates.write > 0);
    CHECK(rates.reads.bandwidth > 0);
    CHECK(rates.reads.iops > 0);
    CHECK(fs::is_empty(at.path()));
    std::stop_source stop;
    stop.request_stop();
    CHECK(gneiss::test::code_of([&] {
        (void)measure_disk(at.path(), free_disk(at.path()), engines, std::chrono::milliseconds(300), stop.get_token());
    }) == gneiss::errc::canceled);
    CHECK(gneiss::test::code_of([&] {
        (void)measure_disk(at.path(), 10 * mib, engines, std::chrono::milliseconds(300));
    }) == gneiss::errc::no_space);
    CHECK(fs::is_empty(at.path()));
}

} // namespace test_cli_common_diagnosis
