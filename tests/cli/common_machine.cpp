#include "kit/cli/machine.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include <gneiss/core/aligned_buffer.hpp>
#include <gneiss/core/error.hpp>

#include <unistd.h>

namespace test_cli_common_machine {

using namespace programs;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t mib = 1 << 20;

/// A file tree like /proc and /sys.
struct fixture {
    fs::path root = fs::temp_directory_path() / ("gneiss-machine-" + std::to_string(::getpid()));
    fixture() {
        file("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          131072 kB\nMemAvailable:    4194304 kB\n");
        file("proc/cpuinfo", "processor\t: 0\nmodel name\t: Test CPU @ 1 GHz\n");
    }
    ~fixture() { fs::remove_all(root); }
    void file(const fs::path& path, const std::string& text) const {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text;
    }
};

} // namespace

TEST_CASE("without a limit, the limits are the system's totals") {
    const fixture f;
    CHECK(available_memory(f.root) == 4096 * mib);
    CHECK(total_memory(f.root) == 8192 * mib);
    CHECK(cpu_name(f.root) == "Test CPU @ 1 GHz");
}

TEST_CASE("the tightest cgroup v2 limit of the group and its ancestors counts, less the reclaimable file cache") {
    const fixture f;
    f.file("proc/self/cgroup", "0::/user/session\n");
    f.file("sys/fs/cgroup/user/session/memory.max", "max\n");
    f.file("sys/fs/cgroup/user/session/memory.current", "1000000\n");
    CHECK(available_memory(f.root) == 4096 * mib);
    f.file("sys/fs/cgroup/user/memory.max", std::to_string(1024 * mib));
    f.file("sys/fs/cgroup/user/memory.current", std::to_string(512 * mib));
    f.file(
        "sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file " + std::to_string(128 * mib) + "\nactive_file 9\n");
    CHECK(available_memory(f.root) == 640 * mib);
    CHECK(total_memory(f.root) == 1024 * mib);
    f.file("sys/fs/cgroup/user/session/memory.max", std::to_string(mib / 2)); // below the bytes in use
    CHECK(available_memory(f.root) == 0);
}

TEST_CASE("a container that sees only its own cgroup at the root is limited by it") {
    const fixture f;
    f.file("proc/self/cgroup", "0::/../../elsewhere/abcdef\n");
    f.file("sys/fs/cgroup/memory.max", std::to_string(256 * mib));
    f.file("sys/fs/cgroup/memory.current", std::to_string(56 * mib));
    CHECK(available_memory(f.root) == 200 * mib);
}

TEST_CASE("a cgroup v1 limit counts, and its value for unlimited does not") {
    const fixture f;
    f.file("proc/self/cgroup", "5:cpu,cpuacct:/box\n4:memory:/box\n");
    f.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    f.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "123456\n");
    CHECK(available_memory(f.root) == 4096 * mib);
    f.file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(2048 * mib));
    f.file("sys/fs/cgroup/memory/box/memory.usage_in_bytes", std::to_string(1048 * mib));
    f.file("sys/fs/cgroup/memory/box/memory.stat", "cache 1\ntotal_inactive_file " + std::to_string(48 * mib) + "\n");
    CHECK(available_memory(f.root) == 1048 * mib);
    f.file("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n");
    f.file("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    CHECK(usable_cpus(f.root) == 1);
}

TEST_CASE("a budget beyond a cgroup or the memory is doubted with both numbers, one beyond memory and swap refused") {
    const fixture f;
    f.file("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\nSwapTotal: 1048576 kB\n");
    const auto has = [](const std::string& text, std::initializer_list<const char*> parts) {
        for (const char* part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    };
    CHECK(doubt_memory(8192 * mib, false, f.root).empty());
    has(doubt_memory(9000 * mib, false, f.root), {"8.78 GiB", "8.00 GiB", "swap"});
    for (const bool more : {false, true}) {
        f.file("proc/self/cgroup", more ? "0::/box\n" : "4:memory:/box\n");
        f.file(more ? "sys/fs/cgroup/box/memory.max" : "sys/fs/cgroup/memory/box/memory.limit_in_bytes",
            std::to_string(143 * mib));
        CHECK(doubt_memory(143 * mib, false, f.root).empty());
        has(doubt_memory(2048 * mib, false, f.root), {"more than", "2.00 GiB", "143 MiB", more ? "v2" : "v1"});
        fs::remove_all(f.root / "sys");
    }
    has(doubt_memory(9217 * mib, true, f.root), {"more than", "9.00 GiB", "8.00 GiB", "1.00 GiB of swap"});
    CHECK_THROWS_AS((void)doubt_memory(9217 * mib, false, f.root), gneiss::error);
}

TEST_CASE("a place for output is refused before the work if nothing can be made there") {
    const fixture f;
    f.file("there/file", "");
    fs::create_symlink("nowhere", f.root / "dangling");
    const auto refused = [&](const fs::path& path, bool file) {
        try {
            check_output_place(f.root / path, file);
        } catch (const std::exception& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    for (const bool file : {false, true}) {
        for (const char* good : {"new", "there/new", "there/file"}) CHECK(refused(good, file).empty());
        CHECK(refused("dangling", file).find("is a link to nowhere, which does not exist") != std::string::npos);
        CHECK(refused("dangling/new", file).find("is a link to nowhere") != std::string::npos);
        CHECK(!refused("there/file/new", file).empty());
    }
    for (const bool file : {false, true}) CHECK(refused("new/deep", file).empty());
    if (::geteuid() == 0) return; // who may write anywhere
    fs::permissions(f.root / "there", fs::perms::owner_read | fs::perms::owner_exec);
    for (const bool file : {false, true})
        CHECK(refused("there/new", file).find("Permission denied") != std::string::npos);
    fs::permissions(f.root / "there", fs::perms::owner_all);
}

TEST_CASE("a cpu quota rounds up and never exceeds the affinity") {
    const fixture f;
    f.file("proc/self/cgroup", "0::/\n");
    const unsigned all = usable_cpus(f.root);
    f.file("sys/fs/cgroup/cpu.max", "max 100000\n");
    CHECK(usable_cpus(f.root) == all);
    f.file("sys/fs/cgroup/cpu.max", "10000 100000\n");
    CHECK(usable_cpus(f.root) == 1);
    f.file("sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK(usable_cpus(f.root) == std::min(2u, all));
    f.file("sys/fs/cgroup/cpu.max", "100000000 100000\n");
    CHECK(usable_cpus(f.root) == all);
}

TEST_CASE("limits of cgroups are reported with the version of the hierarchy that sets them, if they limit anything") {
    const fixture f;
    CHECK(limits_of_cgroups(f.root).version == 0);
    f.file("proc/self/cgroup", "5:cpu,cpuacct:/box\n4:memory:/box\n");
    f.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(limits_of_cgroups(f.root).version == 0);
    CHECK_FALSE(limits_of_cgroups(f.root).memory);
    f.file("sys/fs/cgroup/memory/box/memory.limit_in_bytes", std::to_string(2048 * mib));
    CHECK(limits_of_cgroups(f.root).memory == 2048 * mib);
    CHECK(limits_of_cgroups(f.root).version == 1);
    CHECK_FALSE(limits_of_cgroups(f.root).cpus);
    f.file("proc/self/cgroup", "0::/\n");
    f.file("sys/fs/cgroup/memory.max", std::to_string(1024 * mib));
    f.file("sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK(limits_of_cgroups(f.root).memory == 1024 * mib);
    CHECK(limits_of_cgroups(f.root).cpus == 1.5);
    CHECK(limits_of_cgroups(f.root).version == 2);
}

TEST_CASE("the disk of a directory is that of the innermost mount, and of a partition its disk's") {
    const fixture f;
    f.file("proc/self/mountinfo",
        "20 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n"
        "21 20 0:30 / /absent/fast rw - tmpfs tmpfs rw\n"
        "22 20 259:2 / /absent/my\\040data rw,noatime shared:2 master:1 - xfs /dev/nvme0n1p2 rw\n"
        "23 20 0:40 / /absent/share rw - nfs4 server:/share rw\n");
    f.file("sys/dev/block/8:1/partition", "1\n");
    f.file("sys/dev/block/queue/rotational", "1\n"); // the parent directory of a partition is its disk
    f.file("sys/dev/block/259:2/queue/rotational", "0\n");
    using medium = disk_info::medium;
    CHECK(disk_of("/absent/x", f.root).filesystem == "ext4");
    CHECK(disk_of("/absent/x", f.root).device == "/dev/sda1");
    CHECK(disk_of("/absent/x", f.root).kind == medium::rotating);
    CHECK(disk_of("/absent/fast/x", f.root).kind == medium::memory);
    CHECK(disk_of("/absent/faster", f.root).kind == medium::rotating); // not inside /absent/fast
    CHECK(disk_of("/absent/my data/x/y", f.root).device == "/dev/nvme0n1p2");
    CHECK(disk_of("/absent/my data", f.root).kind == medium::ssd);
    CHECK(disk_of("/absent/share/x", f.root).kind == medium::network);
    fs::remove(f.root / "proc/self/mountinfo");
    CHECK(disk_of("/absent/x", f.root).kind == medium::unknown);
    CHECK(disk_of("/absent/x", f.root).filesystem.empty());
}

TEST_CASE("the command line is written as a shell reads it") {
    const fixture machine;
    CHECK(command_text(machine.root).empty());
    using namespace std::string_literals;
    machine.file("proc/self/cmdline", "/usr/bin/gneiss-marius\0train\0data/a b\0--lr\0.1\0\0it's\0"s);
    CHECK(command_text(machine.root) == R"(gneiss-marius train 'data/a b' --lr .1 '' 'it'\''s')");
}

TEST_CASE("this machine has memory, a processor and a disk") {
    CHECK(usable_cpus() >= 1);
    CHECK(available_memory() > 0);
    CHECK(total_memory() > 0);
    CHECK(current_rss() > 0);
    CHECK(peak_rss() >= current_rss() / 2);
    CHECK(cpu_seconds() >= 0);
    CHECK(free_disk(fs::temp_directory_path() / "not" / "there" / "yet") > 0);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("large blocks between small ones return to the system when freed on a thread other than the first") {
    return_large_blocks();
    // Like evaluation, which loads the rows and edge blocks of one partition and frees those of the one before.
    struct loaded {
        gneiss::aligned_buffer<std::byte> rows;
        std::vector<gneiss::aligned_buffer<std::byte>> blocks;
    };
    const std::uint64_t before = current_rss();
    std::uint64_t most = 0;
    std::jthread([&] {
        loaded last;
        for (std::size_t p = 0; p < 60; ++p) {
            loaded next{gneiss::aligned_buffer<std::byte>((16 << 20) + p % 7 * 100'000), {}};
            std::memset(next.rows.data(), 1, next.rows.size());
            for (std::size_t b = 0; b < 64; ++b) {
                next.blocks.emplace_back(8192 + (p * 64 + b) % 13 * 1024);
                std::memset(next.blocks.back().data(), 1, next.blocks.back().size());
            }
            last = std::move(next);
            most = std::max(most, current_rss());
        }
    }).join();
    CHECK(most - before < 60 * mib); // two of them take 36
}
#endif

} // namespace test_cli_common_machine
