#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <limits>
#include <thread>

// Interposes pthread_create: included by one file of a test binary.

namespace gneiss::test {

inline std::atomic<int> threads_granted{std::numeric_limits<int>::max()};
inline std::atomic<int> threads_refused{0};

/// Grants `count` threads and refuses all others during its lifetime, as at a limit of processes. If the test hangs,
/// SIGALRM ends the binary after two minutes.
class grant_threads {
public:
    explicit grant_threads(int count) {
        ::alarm(120);
        threads_refused = 0;
        threads_granted = count;
    }
    ~grant_threads() {
        threads_granted = std::numeric_limits<int>::max();
        ::alarm(0);
    }
    grant_threads(const grant_threads&) = delete;
    grant_threads& operator=(const grant_threads&) = delete;

    /// Number of threads refused so far.
    [[nodiscard]] static int refused() { return threads_refused; }
};

} // namespace gneiss::test

extern "C" {

// The sanitizer's version, if one is linked into the binary.
int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)
    __attribute__((weak)); // NOLINT

// NOLINTNEXTLINE(misc-definitions-in-headers): one unit of a test has it
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
    using function = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real = &__interceptor_pthread_create != nullptr
        ? &__interceptor_pthread_create
        : reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_create"));
    if (gneiss::test::threads_granted.fetch_sub(1) > 0) return real(thread, attributes, run, argument);
    gneiss::test::threads_granted = 0;
    ++gneiss::test::threads_refused;
    std::this_thread::sleep_for(std::chrono::milliseconds(2)); // granted threads reach their wait
    return EAGAIN;
}

} // extern "C"
