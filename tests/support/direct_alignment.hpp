#pragma once

#include <gneiss/storage/engine/detail/posix_files.hpp>

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdint>

// Interposes syscall: included by one file of a test binary.

namespace gneiss::test {

inline std::atomic<std::int64_t> claimed_alignment{-1}; // negative: the kernel's value

/// Makes statx report that direct I/O needs offsets and lengths of a multiple of `bytes`, for its lifetime; 0:
/// unsupported.
class claim_direct_alignment {
public:
    explicit claim_direct_alignment(std::uint32_t bytes) { claimed_alignment = bytes; }
    ~claim_direct_alignment() { claimed_alignment = -1; }
    claim_direct_alignment(const claim_direct_alignment&) = delete;
    claim_direct_alignment& operator=(const claim_direct_alignment&) = delete;
};

} // namespace gneiss::test

// Reads six arguments whatever the call has, like the system's own: no_sanitize.
// NOLINTNEXTLINE(misc-definitions-in-headers): one unit of a test has it
extern "C" __attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
    using function = long (*)(long, ...);
    static std::atomic<function> found{nullptr}; // no guard, which may call this
    function real = found;
    if (real == nullptr) found = real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "syscall"));
    long given[6];
    std::va_list rest;
    va_start(rest, number);
    for (long& each : given) each = va_arg(rest, long);
    va_end(rest);
    const long result = real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
    const std::int64_t claimed = gneiss::test::claimed_alignment;
    if (number == SYS_statx && result == 0 && claimed >= 0) {
        auto& info = *reinterpret_cast<gneiss::detail::kernel_statx*>(
            given[4]);       // NOLINT(performance-no-int-to-ptr): an argument of a system call
        info.mask |= 0x2000; // STATX_DIOALIGN
        info.dio_mem_align = claimed == 0 ? 0 : 4;
        info.dio_offset_align = static_cast<std::uint32_t>(claimed);
    }
    return result;
}
