// A library for LD_PRELOAD that makes the N-th system call of a real program fail, or kills the program there.
//
//     GNEISS_FAULT=KIND:N[:sticky]   KIND: eio, enospc, short, zero, eintr, eagain, kill, torn, or none (counts)
//     GNEISS_FAULT=int:N, term:N, hup:N  the program gets SIGINT, SIGTERM or SIGHUP before the N-th call
//     GNEISS_FAULT=thread:N[:sticky] the system refuses the N-th thread, or all from it on, as at a limit of processes
//     GNEISS_FAULT=nouring:0         the kernel refuses io_uring with EPERM (a seccomp filter), as in many containers
//     GNEISS_FAULT_LOG=FILE          receives "calls injected" when the program exits by itself
//
// Counts, from 1, only calls that the kind can affect, on files below the directory that the program started in (system
// files, terminals and pipes are excluded). A failed call does not take place; `short` moves half of the requested
// bytes, `torn` writes half and then kills. I/O through io_uring is not intercepted: run with threads.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

enum class call { open, create, move_in, move_out, sync, resize, rename, make_directory, remove, thread };

constexpr int most_files = 1024;
std::atomic<bool> watched[most_files];
std::atomic<unsigned long> calls{0}, injected{0};

struct settings {
    char kind[16] = "none";
    unsigned long at = 0;
    bool sticky = false;
    char root[4096] = "";

    settings() {
        if (const char* text = std::getenv("GNEISS_FAULT")) {
            const std::size_t length = std::strcspn(text, ":");
            if (length < sizeof kind && text[length] == ':') {
                std::memcpy(kind, text, length);
                kind[length] = '\0';
                char* end = nullptr;
                at = std::strtoul(text + length + 1, &end, 10);
                sticky = std::strcmp(end, ":sticky") == 0;
            }
        }
        if (::getcwd(root, sizeof root) == nullptr) root[0] = '\0';
    }
    [[nodiscard]] bool is(const char* name) const { return std::strcmp(kind, name) == 0; }
};
const settings& options() {
    static const settings read;
    return read;
}

template <class Function>
Function real(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}
#define GNEISS_REAL(name) static const auto real_##name = real<decltype(&::name)>(#name)

bool ours(const char* path) {
    if (path == nullptr || path[0] != '/') return path != nullptr;
    const std::size_t length = std::strlen(options().root);
    return length > 1 && std::strncmp(path, options().root, length) == 0;
}
bool ours(int fd) { return fd >= 0 && fd < most_files && watched[fd]; }

bool applies(call which) {
    if (which == call::thread || options().is("thread")) return which == call::thread && options().is("thread");
    for (const char* any : {"eio", "kill", "int", "term", "hup", "none"})
        if (options().is(any)) return true;
    if (options().is("enospc")) return which != call::open && which != call::move_in && which != call::remove;
    if (options().is("short")) return which == call::move_in || which == call::move_out;
    if (options().is("zero")) return which == call::move_in;
    if (options().is("torn")) return which == call::move_out;
    if (options().is("eintr")) return which <= call::resize;
    return options().is("eagain") && (which == call::move_in || which == call::move_out || which == call::sync);
}

/// Counts the call; returns true if it must fail, with errno set. Does not return from a kill.
bool strikes(call which) {
    if (!applies(which)) return false;
    const unsigned long number = ++calls;
    if (options().at == 0 || (options().sticky ? number < options().at : number != options().at)) return false;
    ++injected;
    if (options().is("kill")) ::kill(::getpid(), SIGKILL);
    if (options().is("int") || options().is("term") || options().is("hup")) {
        ::kill(::getpid(), options().is("int") ? SIGINT : options().is("term") ? SIGTERM : SIGHUP);
        return false;
    }
    errno = options().is("enospc") ? ENOSPC : options().is("eintr") ? EINTR : options().is("eagain") ? EAGAIN : EIO;
    return true;
}

/// Moves bytes by `body(length)`, or as the fault specifies.
template <class Body>
ssize_t move(int fd, call which, std::size_t length, Body&& body) {
    if (!ours(fd) || !strikes(which)) return body(length);
    if (options().is("zero")) return 0;
    if (!options().is("short") && !options().is("torn")) return -1;
    const std::size_t unit = length % 512 == 0 ? 512 : 1; // unit of a direct transfer
    const ssize_t moved = body(length > unit ? length / 2 / unit * unit : length);
    if (options().is("torn")) ::kill(::getpid(), SIGKILL);
    return moved;
}

int opened(int fd, const char* path) {
    if (fd >= 0 && fd < most_files) {
        struct ::stat status{};
        watched[fd] = ours(path) && ::fstat(fd, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
    }
    return fd;
}
call kind_of_open(int flags) {
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? call::create : call::open;
}

struct whole_life {
    whole_life() {
        if (!options().is("nouring")) return;
        struct sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        struct sock_fprog program{sizeof steps / sizeof *steps, steps};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            std::fputs("no seccomp here\n", stderr);
    }
    ~whole_life() {
        const char* path = std::getenv("GNEISS_FAULT_LOG");
        if (path == nullptr) return;
        char text[64];
        const int length = std::snprintf(text, sizeof text, "%lu %lu\n", calls.load(), injected.load());
        const int fd = real<decltype(&::open)>("open")(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        if (fd < 0) return;
        (void)!real<decltype(&::write)>("write")(fd, text, static_cast<std::size_t>(length));
        ::close(fd);
    }
} from_begin_to_end;

} // namespace

extern "C" {

#define GNEISS_OPEN(name)                                                                                              \
    int name(const char* path, int flags, ...) {                                                                       \
        GNEISS_REAL(name);                                                                                             \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        const mode_t mode = kind_of_open(flags) == call::create ? va_arg(rest, mode_t) : 0;                            \
        va_end(rest);                                                                                                  \
        if (ours(path) && strikes(kind_of_open(flags))) return -1;                                                     \
        return opened(real_##name(path, flags, mode), path);                                                           \
    }
GNEISS_OPEN(open)
GNEISS_OPEN(open64)
int mkostemp(char* name, int flags) {
    GNEISS_REAL(mkostemp);
    if (ours(name) && strikes(call::create)) return -1;
    return opened(real_mkostemp(name, flags), name);
}
int close(int fd) {
    GNEISS_REAL(close);
    if (fd >= 0 && fd < most_files) watched[fd] = false;
    return real_close(fd);
}

ssize_t read(int fd, void* to, size_t length) {
    GNEISS_REAL(read);
    return move(fd, call::move_in, length, [&](size_t n) { return real_read(fd, to, n); });
}
ssize_t write(int fd, const void* from, size_t length) {
    GNEISS_REAL(write);
    return move(fd, call::move_out, length, [&](size_t n) { return real_write(fd, from, n); });
}
ssize_t pread(int fd, void* to, size_t length, off_t offset) {
    GNEISS_REAL(pread);
    return move(fd, call::move_in, length, [&](size_t n) { return real_pread(fd, to, n, offset); });
}
ssize_t pwrite(int fd, const void* from, size_t length, off_t offset) {
    GNEISS_REAL(pwrite);
    return move(fd, call::move_out, length, [&](size_t n) { return real_pwrite(fd, from, n, offset); });
}
ssize_t pread64(int fd, void* to, size_t length, off64_t offset) {
    GNEISS_REAL(pread64);
    return move(fd, call::move_in, length, [&](size_t n) { return real_pread64(fd, to, n, offset); });
}
ssize_t pwrite64(int fd, const void* from, size_t length, off64_t offset) {
    GNEISS_REAL(pwrite64);
    return move(fd, call::move_out, length, [&](size_t n) { return real_pwrite64(fd, from, n, offset); });
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
    GNEISS_REAL(writev);
    if (ours(fd) && !options().is("short") && !options().is("torn") && strikes(call::move_out)) return -1;
    return real_writev(fd, parts, count);
}

int fsync(int fd) {
    GNEISS_REAL(fsync);
    return ours(fd) && strikes(call::sync) ? -1 : real_fsync(fd);
}
int fdatasync(int fd) {
    GNEISS_REAL(fdatasync);
    return ours(fd) && strikes(call::sync) ? -1 : real_fdatasync(fd);
}
int ftruncate(int fd, off_t length) noexcept {
    GNEISS_REAL(ftruncate);
    return ours(fd) && strikes(call::resize) ? -1 : real_ftruncate(fd, length);
}
int posix_fallocate(int fd, off_t offset, off_t length) {
    GNEISS_REAL(posix_fallocate);
    return ours(fd) && strikes(call::resize) ? errno : real_posix_fallocate(fd, offset, length);
}
int rename(const char* from, const char* to) noexcept {
    GNEISS_REAL(rename);
    return ours(to) && strikes(call::rename) ? -1 : real_rename(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
    GNEISS_REAL(mkdir);
    return ours(path) && strikes(call::make_directory) ? -1 : real_mkdir(path, mode);
}
int unlink(const char* path) noexcept {
    GNEISS_REAL(unlink);
    return ours(path) && strikes(call::remove) ? -1 : real_unlink(path);
}
int remove(const char* path) noexcept {
    GNEISS_REAL(remove);
    return ours(path) && strikes(call::remove) ? -1 : real_remove(path);
}
int unlinkat(int directory, const char* path, int flags) noexcept {
    GNEISS_REAL(unlinkat);
    return (directory == AT_FDCWD ? ours(path) : ours(directory)) && strikes(call::remove)
        ? -1
        : real_unlinkat(directory, path, flags);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
    GNEISS_REAL(pthread_create);
    if (!strikes(call::thread)) return real_pthread_create(thread, attributes, run, argument);
    ::usleep(2000); // earlier threads reach their wait
    return EAGAIN;
}

} // extern "C"
