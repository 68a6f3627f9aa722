// SPDX-License-Identifier: Apache-2.0
#include "kit/cli/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <gneiss/core/detail/sanitizer.hpp>
#include <gneiss/core/error.hpp>
#include <gneiss/core/memory_budget.hpp>

namespace programs {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
/// Returns the memory of the process so far; without that of a sanitizer, which is not the program's: budgets hold what
/// they hold without it.
std::uint64_t without_sanitizer(std::uint64_t rss) { return gneiss::detail::sanitized ? std::uint64_t{10} << 20 : rss; }

/// Returns the number in a file; none if the file is missing, says "max" or has no number.
std::optional<std::uint64_t> number_in(const fs::path& file) {
    std::ifstream in(file);
    std::uint64_t number = 0;
    if (!(in >> number)) return std::nullopt;
    return number;
}

/// Returns the number after `key` in a file of "key number" or "key: number kB" lines.
std::optional<std::uint64_t> number_behind(const fs::path& file, std::string_view key) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        if (!line.starts_with(key)) continue;
        std::string_view rest = std::string_view(line).substr(key.size());
        if (rest.starts_with(':'))
            rest.remove_prefix(1);
        else if (!rest.starts_with(' '))
            continue;
        std::istringstream words{std::string(rest)};
        std::uint64_t number = 0;
        std::string unit;
        if (!(words >> number)) return std::nullopt;
        return words >> unit && unit == "kB" ? number * 1024 : number;
    }
    return std::nullopt;
}

/// Returns the folders of this process's cgroup of `controller` and of all its ancestors, lowest first; v2 if
/// `controller` is "".
std::vector<fs::path> cgroup_folders(const fs::path& root, std::string_view controller) {
    const fs::path mount = root / "sys/fs/cgroup" / controller;
    fs::path inside;
    std::ifstream in(root / "proc/self/cgroup");
    for (std::string line; std::getline(in, line);) { // hierarchy:controllers:path
        const auto first = line.find(':'), second = line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
        if (controller.empty() ? names == ",," : names.find("," + std::string(controller) + ",") != std::string::npos)
            inside = fs::path(line.substr(second + 1)).relative_path();
    }
    // In a container the path may name a folder outside the mount: then only the mount itself exists.
    std::vector<fs::path> folders;
    for (; !inside.empty(); inside = inside.parent_path())
        if (std::error_code ignored; fs::is_directory(mount / inside, ignored)) folders.push_back(mount / inside);
    folders.push_back(mount);
    return folders;
}

struct cgroup_memory {
    std::uint64_t limit = unlimited, left = unlimited;
    int version = 0; ///< of the hierarchy that sets the limit
};

cgroup_memory memory_of_cgroups(const fs::path& root) {
    cgroup_memory result;
    const auto look = [&](int version, const fs::path& folder, const char* limit_file, const char* usage_file,
                          const char* cache) {
        const auto limit = number_in(folder / limit_file);
        if (!limit) return;
        if (*limit < result.limit) result.version = version;
        const std::uint64_t used = number_in(folder / usage_file).value_or(0);
        const std::uint64_t reclaimable = std::min(used, number_behind(folder / "memory.stat", cache).value_or(0));
        result.limit = std::min(result.limit, *limit);
        result.left = std::min(result.left, *limit - std::min(*limit, used - reclaimable));
    };
    for (const fs::path& folder : cgroup_folders(root, ""))
        look(2, folder, "memory.max", "memory.current", "inactive_file");
    for (const fs::path& folder : cgroup_folders(root, "memory"))
        look(1, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
    return result;
}

struct cgroup_cpus {
    double quota = std::numeric_limits<double>::infinity();
    int version = 0;
};

cgroup_cpus cpus_of_cgroups(const fs::path& root) {
    cgroup_cpus result;
    const auto look = [&](int version, double quota, double period) {
        if (quota <= 0 || period <= 0 || quota / period >= result.quota) return;
        result = {quota / period, version};
    };
    for (const fs::path& folder : cgroup_folders(root, "")) {
        std::ifstream in(folder / "cpu.max");
        double quota = 0, period = 0;
        if (in >> quota >> period) look(2, quota, period); // "max 100000" fails to read: no quota
    }
    for (const char* controller : {"cpu", "cpu,cpuacct"})
        for (const fs::path& folder : cgroup_folders(root, controller)) {
            std::ifstream in(folder / "cpu.cfs_quota_us");
            double quota = 0;
            if (in >> quota) look(1, quota, static_cast<double>(number_in(folder / "cpu.cfs_period_us").value_or(0)));
        }
    return result;
}

/// Reads the octal escapes of /proc/self/mountinfo: "\\040" is a blank.
std::string without_escapes(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] == '\\' && i + 3 < text.size()) {
            result += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            result += text[i];
        }
    return result;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
    return std::ranges::mismatch(folder, path).in1 == folder.end();
}

} // namespace

unsigned usable_cpus(const fs::path& root) {
    unsigned cpus = std::max(1u, std::thread::hardware_concurrency());
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) == 0) cpus = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
    const double quota = cpus_of_cgroups(root).quota;
    if (quota < cpus) cpus = std::max(1u, static_cast<unsigned>(std::ceil(quota - 1e-9)));
    return cpus;
}

std::uint64_t available_memory(const fs::path& root) {
    const fs::path info = root / "proc/meminfo";
    auto available = number_behind(info, "MemAvailable");
    if (!available) available = number_behind(info, "MemFree"); // kernels before 3.14
    return std::min(available.value_or(0), memory_of_cgroups(root).left);
}

std::uint64_t total_memory(const fs::path& root) {
    return std::min(number_behind(root / "proc/meminfo", "MemTotal").value_or(0), memory_of_cgroups(root).limit);
}

std::string doubt_memory(std::uint64_t budget, bool plans_only, const fs::path& root) {
    const std::uint64_t memory = number_behind(root / "proc/meminfo", "MemTotal").value_or(0);
    const std::uint64_t swap = number_behind(root / "proc/meminfo", "SwapTotal").value_or(0);
    if (memory == 0) return "";
    const std::string given = "--memory " + gneiss::format_bytes(budget) + " is more than the ";
    const std::string machine =
        "machine's " + gneiss::format_bytes(memory) + " of memory and " + gneiss::format_bytes(swap) + " of swap";
    if (budget > memory + swap) {
        if (plans_only) return given + machine + ": this plan is for another machine";
        throw gneiss::error(
            gneiss::errc::over_budget, given + machine + ": give less, or plan for another machine with --dry-run");
    }
    const cgroup_memory group = memory_of_cgroups(root);
    if (group.version != 0 && budget > group.limit)
        return given + gneiss::format_bytes(group.limit) + " that the cgroup of this process may use (v" +
            std::to_string(group.version) + "): the system ends the program when it takes more";
    if (budget > memory)
        return given + "machine's " + gneiss::format_bytes(memory) + " of memory: the rest is swap, which is slow";
    return "";
}

cgroup_limits limits_of_cgroups(const fs::path& root) {
    cgroup_limits result;
    const cgroup_memory memory = memory_of_cgroups(root);
    const cgroup_cpus cpus = cpus_of_cgroups(root);
    if (memory.version != 0 && memory.limit < number_behind(root / "proc/meminfo", "MemTotal").value_or(0)) {
        result.memory = memory.limit;
        result.version = memory.version;
    }
    if (cpus.version != 0) {
        result.cpus = cpus.quota;
        result.version = cpus.version;
    }
    return result;
}

std::string cpu_name(const fs::path& root) {
    std::ifstream in(root / "proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name"))
            if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
    utsname name{};
    return ::uname(&name) == 0 ? name.machine : "unknown";
}

std::uint64_t current_rss() { return number_behind("/proc/self/status", "VmRSS").value_or(0); }

std::uint64_t anonymous_rss() {
    return without_sanitizer(number_behind("/proc/self/status", "RssAnon").value_or(current_rss()));
}

std::uint64_t peak_rss() {
    if (const auto peak = number_behind("/proc/self/status", "VmHWM")) return *peak;
    rusage usage{};
    return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<std::uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

void return_large_blocks() {
#ifdef __GLIBC__
    ::mallopt(M_MMAP_THRESHOLD, 1 << 20); // an explicit threshold no longer grows with freed sizes
#endif
}
void trim_memory() {
#ifdef __GLIBC__
    ::malloc_trim(0);
#endif
}

std::uint64_t major_page_faults() {
    rusage used{};
    return ::getrusage(RUSAGE_SELF, &used) == 0 ? static_cast<std::uint64_t>(used.ru_majflt) : 0;
}

device_bytes bytes_moved() {
    const auto of = [](std::string_view key) { return number_behind("/proc/self/io", key).value_or(0); };
    return {of("read_bytes"), of("write_bytes")};
}

std::string shell_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + '\'';
}

std::string shell_word(const std::string& word) {
    constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=.,:/@%";
    return word.empty() || word.find_first_not_of(plain) != std::string::npos ? shell_quoted(word) : word;
}

std::string command_text(const fs::path& root) {
    std::ifstream in(root / "proc/self/cmdline", std::ios::binary);
    std::string text;
    for (std::string word; std::getline(in, word, '\0');) {
        if (text.empty())
            word = fs::path(word).filename().string();
        else
            text += ' ';
        text += shell_word(word);
    }
    return text;
}

double cpu_seconds() {
    rusage usage{};
    if (::getrusage(RUSAGE_SELF, &usage) != 0) return 0;
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

disk_info disk_of(const fs::path& directory, const fs::path& root) {
    disk_info result;
    std::error_code ignored;
    const fs::path place = fs::weakly_canonical(fs::absolute(directory, ignored), ignored);
    std::string number; // "MAJOR:MINOR"
    std::size_t longest = 0;
    std::ifstream in(root / "proc/self/mountinfo");
    // ID PARENT MAJOR:MINOR ROOT MOUNT-POINT OPTIONS [TAG...] - TYPE SOURCE OPTIONS; the last mount at a point hides
    // the others
    for (std::string line; std::getline(in, line);) {
        std::istringstream words(line);
        std::string id, parent, device, inside, point, word, type, source;
        words >> id >> parent >> device >> inside >> point;
        while (words >> word && word != "-") {
        }
        if (!(words >> type >> source)) continue;
        const fs::path mount = without_escapes(point);
        const std::size_t length = mount.native().size();
        if (!is_inside(place, mount) || length < longest) continue;
        longest = length;
        number = device;
        result = {.filesystem = type, .device = without_escapes(source)};
    }
    using medium = disk_info::medium;
    const auto is_one_of = [&](std::initializer_list<std::string_view> types) {
        return std::ranges::find(types, result.filesystem) != types.end();
    };
    if (is_one_of({"tmpfs", "ramfs"})) result.kind = medium::memory;
    if (is_one_of({"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p", "virtiofs", "fuse.sshfs"}))
        result.kind = medium::network;
    if (result.kind != medium::unknown || number.empty()) return result;
    struct stat file{};
    if (number.starts_with("0:") && ::stat(result.device.c_str(), &file) == 0 && S_ISBLK(file.st_mode)) // btrfs
        number = std::to_string(major(file.st_rdev)) + ":" + std::to_string(minor(file.st_rdev));
    const fs::path block = root / "sys/dev/block" / number;
    auto rotational = number_in(block / "queue/rotational");
    if (!rotational) rotational = number_in(block / "../queue/rotational"); // of a partition's disk
    if (rotational) result.kind = *rotational == 0 ? medium::ssd : medium::rotating;
    return result;
}

fs::path existing_parent(const fs::path& path) {
    std::error_code ignored;
    fs::path existing = fs::absolute(path, ignored);
    while (!fs::exists(existing, ignored) && existing.has_relative_path()) existing = existing.parent_path();
    return existing;
}

void check_output_place(const fs::path& out, bool file) {
    std::error_code ignored;
    const fs::path full = fs::absolute(out, ignored);
    fs::path at = full;
    for (; !fs::exists(at, ignored) && at.has_relative_path(); at = at.parent_path())
        if (fs::is_symlink(fs::symlink_status(at, ignored)))
            throw gneiss::error(gneiss::errc::not_found,
                "is a link to " + fs::read_symlink(at, ignored).string() + ", which does not exist", {.path = at});
    if (at == full) at = file ? full.parent_path() : full; // it exists: a file is replaced, a run is continued
    if (fs::is_regular_file(at, ignored) && at != full) throw gneiss::io_error(ENOTDIR, "cannot create", {.path = out});
    if (fs::is_directory(at, ignored) && ::access(at.c_str(), W_OK | X_OK) != 0)
        throw gneiss::io_error(errno, "cannot create", {.path = out});
}

memory_use used_memory() { return {.all = without_sanitizer(current_rss()), .anonymous = anonymous_rss()}; }

std::uint64_t program_memory(const memory_use& before) {
    return std::max(used_memory().all, before.all) - before.all + (std::uint64_t{12} << 20);
}

std::uint64_t free_disk(const fs::path& path) {
    const fs::path existing = existing_parent(path);
    struct statvfs info{};
    if (::statvfs(existing.c_str(), &info) != 0)
        throw gneiss::io_error(errno, "cannot get the free space", {.path = existing});
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

} // namespace programs
